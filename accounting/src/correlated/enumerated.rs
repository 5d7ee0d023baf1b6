//! E[W^α] straight from its definition, for tests.

use ndarray::Array2;

/// Returns ln E[W^α] from its definition, over all sets of α draws.
fn enumerated(products: &Array2<f64>, order: usize) -> f64 {
    let b = products.nrows();
    let mut sum = 0.0;
    for code in 0..b.pow(order as u32) {
        let draws: Vec<usize> = (0..order).map(|j| code / b.pow(j as u32) % b).collect();
        let pairs = (0..order).flat_map(|j| (0..j).map(move |k| (j, k)));
        sum += pairs.map(|(j, k)| products[[draws[j], draws[k]]]).sum::<f64>().exp();
    }
    (sum / (b as f64).powi(order as i32)).ln()
}

/// Asserts that every list bounds the definition, and, where it is said to be tight, that the least of them is it.
pub fn assert_bounds(lists: &[Vec<f64>], truth: &Array2<f64>, orders: usize, tight: bool) {
    for order in 2..=orders {
        let exact = enumerated(truth, order);
        for list in lists {
            assert!(list[order] >= exact - 1e-12, "{order}: {} below {exact}", list[order]);
        }
        let least = lists.iter().map(|list| list[order]).fold(f64::INFINITY, f64::min);
        assert!(!tight || least < exact + 1e-12, "{order}: {least} for {exact}");
    }
}
