//! The connection to the coordinator.

use std::time::Duration;

use anyhow::Context;
use http::Uri;
use node::dial::{CallInterceptor, is_unix};
use proto::{MAX_MESSAGE_BYTES, pb::workers_client::WorkersClient};
use tonic::{
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

pub type Client = WorkersClient<InterceptedService<Channel, CallInterceptor>>;

/// Connects when first used, and again when the connection is lost; `dial` makes connections.
pub fn coordinator(
    url: &str,
    interceptor: CallInterceptor,
    dial: impl FnOnce(Endpoint) -> anyhow::Result<Channel>,
) -> anyhow::Result<Client> {
    let endpoint = Endpoint::from_shared(url.to_owned())
        .with_context(|| format!("coordinator is {url:?}; allowed: http(s)://host:port or unix:///path"))?;
    let endpoint = match is_unix(url) {
        true => endpoint.origin(Uri::from_static("http://localhost")),
        false => endpoint,
    };
    let endpoint = endpoint
        .connect_timeout(Duration::from_secs(2))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .keep_alive_while_idle(true);
    let client = WorkersClient::with_interceptor(dial(endpoint)?, interceptor);
    Ok(client.max_decoding_message_size(MAX_MESSAGE_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES))
}
