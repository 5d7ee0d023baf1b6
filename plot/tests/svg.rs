//! What comes out is XML that shows what went in, and what can't be drawn is refused by name.

use plot::{Axis, Bars, Chart, Group, Lines, PlotError, Series, Value, svg};

fn lines(x: Axis, y: Axis, points: Vec<(f64, Value)>) -> Chart {
    let series = vec![Series::new("measured", points)];
    Chart::Lines(Lines { title: "rows".into(), x, y, series })
}

fn bars(bars: Vec<Option<Value>>) -> Chart {
    let categories = vec!["identity".into(), "blt-4".into()];
    let groups = vec![Group { name: "ours".into(), bars }];
    Chart::Bars(Bars {
        title: "ratio".into(),
        y: Axis::linear("times"),
        categories,
        groups,
        level: Some(1.0),
    })
}

fn texts(picture: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(picture).expect("XML");
    let texts =
        document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    texts.filter_map(|node| node.text().map(|text| text.trim().to_owned())).collect()
}

#[test]
fn charts_are_xml_and_hold_every_word() {
    let value = Value { middle: 5.0, spread: Some((4.0, 6.0)) };
    let one = lines(Axis::log("coordinates"), Axis::linear("rate"), vec![(1e4, value), (1e8, 7.0.into())]);
    let picture = svg(&[one, bars(vec![Some(value), None])]).unwrap();
    let texts = texts(&picture);
    for word in ["rows", "coordinates", "rate", "measured", "ratio", "times", "identity", "blt-4", "ours"] {
        assert!(texts.iter().any(|text| text == word), "{word} is missing from {texts:?}");
    }
    assert!(texts.iter().any(|text| text == "100M"), "decades are named: {texts:?}");
}

#[test]
fn names_are_shown_as_they_are_written() {
    let odd = "a < b & \"c\" > d\u{1}";
    let series = vec![Series::new(odd, vec![(1.0, 1.0.into()), (2.0, 2.0.into())])];
    let x = Axis::linear(odd);
    let y = Axis::linear("y");
    let picture = svg(&[Chart::Lines(Lines { title: odd.into(), x, y, series })]).unwrap();
    let shown = texts(&picture).into_iter().filter(|text| text == "a < b & \"c\" > d").count();
    assert_eq!(shown, 3, "title, axis and legend");
}

#[test]
fn one_point_and_equal_points_are_drawn() {
    for (x, y) in [(Axis::linear("x"), Axis::linear("y")), (Axis::log("x"), Axis::log("y"))] {
        for points in [vec![(3.0, 3.0.into())], vec![(3.0, 3.0.into()), (3.0, 3.0.into())]] {
            let picture = svg(&[lines(x.clone(), y.clone(), points)]).unwrap();
            assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        }
    }
}

#[test]
fn logarithmic_axes_refuse_what_has_no_logarithm() {
    for wrong in [0.0, -1.0] {
        let error =
            svg(&[lines(Axis::log("size"), Axis::linear("y"), vec![(wrong, 1.0.into())])]).unwrap_err();
        assert_eq!(
            error,
            PlotError::NotPositive { axis: "size".into(), series: "measured".into(), value: wrong }
        );
        let value = Value { middle: 1.0, spread: Some((wrong, 2.0)) };
        assert!(svg(&[lines(Axis::linear("x"), Axis::log("y"), vec![(1.0, value)])]).is_err());
    }
}

#[test]
fn what_is_not_finite_is_refused() {
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let point = vec![(1.0, wrong.into())];
        let error = svg(&[lines(Axis::linear("x"), Axis::linear("y"), point)]).unwrap_err();
        assert!(matches!(error, PlotError::NotFinite { .. }), "{error}");
        assert!(svg(&[bars(vec![Some(wrong.into()), None])]).is_err());
    }
}

#[test]
fn nothing_to_draw_is_refused() {
    assert!(matches!(svg(&[]), Err(PlotError::Empty { .. })));
    assert!(matches!(svg(&[bars(vec![None, None])]), Err(PlotError::Empty { .. })));
    let none = lines(Axis::linear("x"), Axis::linear("y"), vec![]);
    assert!(matches!(svg(&[none]), Err(PlotError::Empty { .. })));
    let error = svg(&[bars(vec![Some(1.0.into())])]).unwrap_err();
    assert!(error.to_string().contains("has 1 bars; allowed: 2"), "{error}");
}

#[test]
fn a_narrow_chart_has_every_name_below_it() {
    let names: Vec<String> = (0..30).map(|index| format!("series {index}")).collect();
    let named = names.iter().map(|name| Series::new(name, vec![(1.0, 1.0.into()), (2.0, 3.0.into())]));
    let chart = Chart::lines("rows", Axis::linear("x"), Axis::linear("y"), named);
    let text = plot::narrow_svg(&[chart.clone(), chart]).unwrap();
    let document = roxmltree::Document::parse(&text).unwrap();
    let root = document.root_element();
    assert_eq!((root.attribute("width"), root.attribute("height")), (Some("520"), Some("2320")));
    // Each chart is 440 high, and the names of the first stand between it and the second.
    let place = |node: roxmltree::Node| node.attribute("y").and_then(|y| y.parse::<f64>().ok());
    for name in &names {
        let at: Vec<f64> = document
            .descendants()
            .filter(|node| node.has_tag_name("text") && node.text().is_some_and(|text| text.trim() == name))
            .filter_map(place)
            .collect();
        assert!(
            matches!(at[..], [first, second] if (440.0..1160.0).contains(&first) && second > 1600.0),
            "{name}: {at:?}"
        );
    }
}
