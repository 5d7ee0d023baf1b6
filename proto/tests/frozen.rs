//! What two processes of one protocol version may count on, whichever builds they are: every name, number and type of
//! `frozen.txt` is still there. More may be added, which an older process passes over; whatever else changes is another
//! protocol version, whose file is written anew by `RUSTLE_FREEZE=1 cargo test -p rustle-proto --test frozen`.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{collections::BTreeSet, fs, path::Path};

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet, field_descriptor_proto::Label};
use proto::{DESCRIPTORS, PROTOCOL_VERSION};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/frozen.txt");

/// One line for each field, value of an enum, and call.
fn lines() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for file in FileDescriptorSet::decode(DESCRIPTORS).unwrap().file {
        let package = file.package().to_owned();
        for message in &file.message_type {
            of_message(&package, message, &mut lines);
        }
        for of_enum in &file.enum_type {
            let values = of_enum.value.iter();
            lines.extend(
                values.map(|it| format!("{package}.{}.{} {}", of_enum.name(), it.name(), it.number())),
            );
        }
        for service in &file.service {
            lines.extend(service.method.iter().map(|method| {
                let stream = |is_stream| if is_stream { "stream " } else { "" };
                let asks = stream(method.client_streaming());
                let answers = stream(method.server_streaming());
                let input = method.input_type();
                let output = method.output_type();
                format!("{package}.{}/{} {asks}{input} {answers}{output}", service.name(), method.name())
            }));
        }
    }
    lines
}

fn of_message(outer: &str, message: &DescriptorProto, lines: &mut BTreeSet<String>) {
    let name = format!("{outer}.{}", message.name());
    for field in &message.field {
        let repeated = if field.label() == Label::Repeated { "repeated " } else { "" };
        let kind = match field.type_name() {
            "" => field.r#type().as_str_name(),
            named => named,
        };
        lines.insert(format!("{name}.{} {} {repeated}{kind}", field.name(), field.number()));
    }
    message.nested_type.iter().for_each(|nested| of_message(&name, nested, lines));
}

#[test]
fn what_a_protocol_version_promised_is_still_there() {
    let now = lines();
    let head = format!("protocol {PROTOCOL_VERSION}");
    if std::env::var_os("RUSTLE_FREEZE").is_some() {
        let text: String = [&head].into_iter().chain(&now).map(|line| format!("{line}\n")).collect();
        fs::write(Path::new(FILE), text).unwrap();
    }
    let frozen = fs::read_to_string(FILE).unwrap();
    let mut frozen = frozen.lines();
    assert_eq!(
        frozen.next(),
        Some(head.as_str()),
        "frozen.txt is of another protocol version: write it anew"
    );
    let gone: Vec<_> = frozen.filter(|line| !now.contains(*line)).collect();
    assert!(gone.is_empty(), "no more as promised; raise PROTOCOL_VERSION, or keep {gone:#?}");
    assert!(now.len() > 150, "{} lines", now.len());
}
