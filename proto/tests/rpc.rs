//! The table of RPCs against the services that the `.proto` files declare.

use std::time::Duration;

use prost::Message;
use proto::rpc::{self, RPCS};

#[test]
fn the_table_holds_every_declared_method_once_and_otherwise_health_and_reflection_alone() {
    let files = prost_types::FileDescriptorSet::decode(proto::DESCRIPTORS).unwrap();
    let mut declared = Vec::new();
    for file in files.file.iter().filter(|file| file.package() == "rustle.v1") {
        for service in &file.service {
            let prefix = format!("/{}.{}/", file.package(), service.name());
            declared.extend(service.method.iter().map(|method| prefix.clone() + method.name()));
        }
    }
    assert!(declared.len() >= 25, "{declared:?}");
    for path in &declared {
        assert_eq!(RPCS.iter().filter(|rpc| rpc.covers(path)).count(), 1, "entries for {path}");
    }
    let undeclared: Vec<_> =
        RPCS.iter().map(|rpc| rpc.path).filter(|path| !declared.iter().any(|own| own == path)).collect();
    assert_eq!(undeclared, ["/grpc.health.v1.Health/*", "/grpc.reflection.v1.ServerReflection/*"]);
}

#[test]
fn limits_are_those_of_the_call() {
    let limits = |path| rpc::find(path).map(|rpc| (rpc.request_bytes, rpc.time, rpc.is_endless(path)));
    let seconds = Duration::from_secs;
    assert_eq!(limits("/rustle.v1.Noise/Bind"), Some((4 << 20, seconds(30), false)));
    assert_eq!(limits("/rustle.v1.Jobs/CreateJob"), Some((16 << 20, seconds(300), false)));
    assert_eq!(limits("/rustle.v1.Shards/Snapshot"), Some((64 << 10, seconds(3600), false)));
    assert_eq!(limits("/grpc.health.v1.Health/Check"), Some((64 << 10, seconds(30), false)));
    assert_eq!(limits("/grpc.health.v1.Health/Watch"), Some((64 << 10, seconds(30), true)));
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    assert_eq!(limits(reflection), Some((64 << 10, seconds(30), true)));
    assert_eq!(limits("/rustle.v1.Noise/Bindings"), None);
}

#[test]
fn a_service_names_its_methods() {
    let shards: Vec<_> = rpc::paths_of("rustle.v1.Shards").collect();
    assert_eq!(shards, [rpc::FETCH_SLICE, "/rustle.v1.Shards/Snapshot"]);
    assert_eq!(rpc::paths_of("rustle.v1.Jobs").count(), 16);
}
