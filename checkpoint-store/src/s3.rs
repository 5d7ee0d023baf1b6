//! Checkpoints in a bucket: `s3://bucket/prefix`, with region, endpoint and credentials from `AWS_…` variables.

use std::{sync::Arc, time::Duration};

use object_store::{
    ClientOptions, ObjectStore, RetryConfig, aws::AmazonS3Builder, aws::S3ConditionalPut, prefix::PrefixStore,
};
use url::Url;

use crate::{CheckpointError, PlainHttp, Result};

const ALLOWED: &str = "s3://bucket or s3://bucket/prefix";
/// A store that is unavailable for longer fails the checkpoint; the next one tries again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// With the client's exponential pauses, six fit into [`RETRY_TIMEOUT`].
const RETRIES: usize = 6;
/// The time for a connection, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for a part of 8 MiB over a slow line.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Opens the bucket at the URL.
pub fn open(url: &str, plain_http: PlainHttp) -> Result<Arc<dyn ObjectStore>> {
    let refused = || CheckpointError::invalid("store URL", format!("{url:?}"), ALLOWED);
    let parsed = Url::parse(url).map_err(|_| refused())?;
    let bucket = parsed.host_str().filter(|bucket| !bucket.is_empty()).ok_or_else(refused)?;
    let is_plain = parsed.query().is_none()
        && parsed.fragment().is_none()
        && parsed.port().is_none()
        && parsed.username().is_empty()
        && parsed.password().is_none();
    if !is_plain {
        return Err(refused());
    }
    // The process may have chosen its provider already: either will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    let options = ClientOptions::new()
        .with_allow_http(plain_http == PlainHttp::Allowed)
        .with_timeout(REQUEST_TIMEOUT)
        .with_connect_timeout(CONNECT_TIMEOUT);
    let store = AmazonS3Builder::from_env()
        .with_client_options(options)
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(retry)
        .build();
    let failed = |error: object_store::Error| CheckpointError::Store {
        object: url.to_owned(),
        reason: error.to_string(),
    };
    let store = store.map_err(failed)?;
    Ok(match parsed.path().trim_matches('/') {
        "" => Arc::new(store),
        prefix => Arc::new(PrefixStore::new(store, prefix)),
    })
}
