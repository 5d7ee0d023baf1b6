use super::*;

#[tokio::test]
async fn connections_are_lazy_shared_and_checked() {
    let connections = Connections::new();
    let channel = |endpoint| connections.channel(endpoint, ExpectedServer::Coordinator);
    channel("http://127.0.0.1:9").unwrap();
    channel("http://127.0.0.1:9").unwrap();
    assert_eq!(connections.open.lock().unwrap().len(), 1);
    connections.forget("http://127.0.0.1:9");
    assert!(connections.open.lock().unwrap().is_empty());
    channel("unix:///tmp/none").unwrap();
    channel("http://[::1]:9").unwrap();
    for bad in ["", "127.0.0.1:9", "ftp://x:1", "http://", "a b", "unix:x", "unix://x"] {
        assert!(matches!(channel(bad), Err(ServiceError::InvalidArgument { .. })), "{bad:?}");
    }
}

#[tokio::test]
async fn beyond_this_host_there_is_tls_or_a_flag() {
    let plain = Connections::new();
    for remote in ["http://10.0.0.1:7", "http://node-1:7", "http://[2001:db8::1]:7", "https://127.0.0.1:7"] {
        let error = plain.channel(remote, ExpectedServer::worker("w")).unwrap_err().to_string();
        assert!(error.contains("--tls-dir") && error.contains(remote), "{error}");
    }
    let insecure = Connections::dialing(DialOptions { insecure: true, ..DialOptions::default() });
    insecure.channel("http://10.0.0.1:7", ExpectedServer::worker("w")).unwrap();
}

#[tokio::test]
async fn a_refused_connection_is_safe_to_retry() {
    let connections = Connections::new();
    let mut jobs = connections.jobs("http://127.0.0.1:1").unwrap();
    let status = jobs.list_jobs(proto::pb::ListJobsRequest {}).await.unwrap_err();
    assert!(from_status(status).retry_safe());
}
