//! An HTTP/2 client's first bytes, as the limits parse them before any other code.

use std::{
    io::Read,
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use node::admission::{FRAME_BYTES, FrameCosts, HEAD_BYTES, PREFACE_BYTES};
use proto::pb::{self, jobs_client::JobsClient};

use super::files::runtime;
use crate::Target;

pub fn targets() -> Vec<Target> {
    vec![Target { name: "http2-frames", seeds, run: frames, slice: 3_000 }]
}

/// Returns the bytes of a real client, and one frame of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let frame = |kind: u8, length: u32| {
        [&length.to_be_bytes()[1..], &[kind], &[0; 5], &vec![kind; length as usize]].concat()
    };
    let mut every = vec![4; PREFACE_BYTES];
    (0..=10).for_each(|kind| every.extend(frame(kind, 8 * u32::from(kind))));
    every.extend(frame(0, 40_000));
    vec![called(), every]
}

/// Returns the bytes of one call, which is never answered.
fn called() -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let reading = thread::spawn(move || listener.accept().map(|(stream, _)| heard(stream)));
    let calling = async {
        let mut client = JobsClient::connect(format!("http://{address}")).await?;
        let call = client.get_job(pb::GetJobRequest { job: "job-1".into() });
        let _never_answered = tokio::time::timeout(Duration::from_millis(200), call).await;
        Ok::<_, tonic::transport::Error>(())
    };
    runtime().block_on(calling).expect("a connection");
    reading.join().expect("a thread that reads").expect("a client")
}

fn heard(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Closing the connection ends it as well.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// Finds the frames by a plain walk: how many begin, the least and the greatest cost of their bodies in calls, and the
/// bytes until the next head.
struct FrameWalk {
    least: f64,
    most: f64,
    until_next: usize,
}

fn walk(bytes: &[u8]) -> FrameWalk {
    let mut at = PREFACE_BYTES;
    let mut least = 0.0;
    let mut most = 0.0;
    while let Some([a, b, c, ..]) = bytes.get(at..at + HEAD_BYTES) {
        let length = u32::from_be_bytes([0, *a, *b, *c]);
        let of_bytes = f64::from(length.min(FRAME_BYTES)) / f64::from(16 << 10);
        least += of_bytes.max(1.0 / 64.0);
        most += of_bytes.max(4.0);
        at += HEAD_BYTES + length as usize;
    }
    FrameWalk { least, most, until_next: at.saturating_sub(bytes.len()) }
}

/// Cost and position are the same however the bytes are split into reads, and both agree with a plain walk.
fn frames(bytes: &[u8]) -> String {
    let walked = walk(bytes);
    let mut whole = FrameCosts::default();
    let cost = whole.cost(bytes);
    assert!((walked.least..=walked.most).contains(&cost), "{cost} calls for frames of {}", walked.least);
    assert_eq!(whole.bytes_to_next_head(), walked.until_next, "the next frame is looked for elsewhere");
    for piece in [1, 2, 7, 9, 64, 1_000] {
        let mut cut = FrameCosts::default();
        // Costs are multiples of a power of two, so that sums are exact in any order.
        let sum: f64 = bytes.chunks(piece).map(|read| cut.cost(read)).sum();
        assert!(sum == cost, "{sum} in reads of {piece}, {cost} in one");
        assert_eq!(cut.bytes_to_next_head(), walked.until_next, "in reads of {piece}");
    }
    format!("{} {}", (cost * 4.0).min(64.0).ceil(), usize::from(walked.until_next > 0))
}
