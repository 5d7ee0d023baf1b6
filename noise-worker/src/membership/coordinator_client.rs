//! The client of the coordinators, which finds the one that leads.

use std::time::Duration;

use node::net::dial::{self, CallInterceptor, DialError, DialOptions};
use node::net::leader_channel::{LeaderChannel, split_urls};
use node::tls::ExpectedServer;
use proto::{MAX_GRANTS_BYTES, MAX_MESSAGE_BYTES, pb::workers_client::WorkersClient};
use tonic::{
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

/// A client of whichever coordinator leads.
pub type Client = WorkersClient<InterceptedService<LeaderChannel, CallInterceptor>>;

/// The keepalive interval with several coordinators: one that has stopped is noticed soon, since another can take over.
const KEEPALIVE_OF_MANY: Duration = Duration::from_secs(1);

/// Returns a client of the coordinators at `urls`, separated by commas. Connects when first used, and again when the
/// connection is lost.
pub fn coordinators(urls: &str, dialing: DialOptions) -> anyhow::Result<Client> {
    let interceptor = dialing.interceptor(&ExpectedServer::Coordinator);
    let is_one = split_urls(urls).count() == 1;
    let following = LeaderChannel::new(urls, move |url| {
        let endpoint = endpoint_of(url)?;
        let endpoint = if is_one {
            endpoint
        } else {
            endpoint.http2_keep_alive_interval(KEEPALIVE_OF_MANY).keep_alive_timeout(KEEPALIVE_OF_MANY)
        };
        dialing.connect(url, endpoint, ExpectedServer::Coordinator)
    })?;
    Ok(client(following, interceptor))
}

/// Returns a client of one coordinator, over the connection that `dial` makes.
pub fn over(url: &str, dial: impl FnOnce(Endpoint) -> Channel) -> anyhow::Result<Client> {
    let following = LeaderChannel::fixed(url, dial(endpoint_of(url)?));
    Ok(client(following, DialOptions::default().interceptor(&ExpectedServer::Coordinator)))
}

fn client(following: LeaderChannel, interceptor: CallInterceptor) -> Client {
    let client = WorkersClient::with_interceptor(following, interceptor);
    client.max_decoding_message_size(MAX_GRANTS_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES)
}

fn endpoint_of(url: &str) -> Result<Endpoint, DialError> {
    Ok(dial::endpoint(url)?
        .connect_timeout(Duration::from_secs(2))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .keep_alive_while_idle(true))
}
