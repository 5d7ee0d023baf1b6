//! What bare sockets and bare tonic deliver: a process that sends bytes from memory, and a client that copies each
//! once to where it belongs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::Context;
use bytes::Bytes;
use client::Connections;
use node::process::runtime::Runtime;
use proto::WorkerId;
use proto::pb::{self, shards_server::Shards, shards_server::ShardsServer};
use serde::{Deserialize, Serialize};
use tokio_stream::{Stream, StreamExt, wrappers::UnixListenerStream};
use tonic::{Request, Response, Status, transport::server::TcpIncoming};

/// Sent over and over.
const MEMORY: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    BareTcp,
    BareUnix,
    TonicTcp,
    TonicUnix,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::BareTcp, Self::BareUnix, Self::TonicTcp, Self::TonicUnix];
}

#[derive(Debug, Serialize, Deserialize)]
struct Addresses {
    bare_tcp: String,
    bare_unix: String,
    tonic_tcp: String,
    tonic_unix: String,
}

/// The other process; ends with this one's end of its standard input.
pub struct PeerProcess {
    child: Child,
    addresses: Addresses,
}

impl PeerProcess {
    pub fn start(chunk_bytes: usize) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("find this program")?;
        let mut child = Command::new(program)
            .args(["serve", "--peer", "--chunk-bytes", &chunk_bytes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start the peer")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("the peer's output")?).read_line(&mut line)?;
        let addresses = serde_json::from_str(&line).context("the peer's addresses")?;
        Ok(Self { child, addresses })
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Open connections to the peer.
pub struct Peers {
    tcp: TcpStream,
    unix: UnixStream,
    connections: Connections,
    tonic: [String; 2],
    buffer: Vec<u8>,
}

impl Peers {
    pub fn connect(process: &PeerProcess, runtime: &Runtime) -> anyhow::Result<Self> {
        let _inside = runtime.enter();
        let tcp = TcpStream::connect(&process.addresses.bare_tcp)?;
        tcp.set_nodelay(true)?;
        Ok(Self {
            tcp,
            unix: UnixStream::connect(&process.addresses.bare_unix)?,
            connections: Connections::new(),
            tonic: [process.addresses.tonic_tcp.clone(), process.addresses.tonic_unix.clone()],
            buffer: vec![1; MEMORY],
        })
    }

    /// Has so many bytes sent, and copies each to its place in memory.
    pub fn fetch(&mut self, runtime: &Runtime, kind: Kind, bytes: u64) -> anyhow::Result<()> {
        let Self { tcp, unix, connections, tonic, buffer } = self;
        match kind {
            Kind::BareTcp => read_bare(tcp, bytes, buffer),
            Kind::BareUnix => read_bare(unix, bytes, buffer),
            Kind::TonicTcp => runtime.block_on(read_tonic(connections, &tonic[0], bytes, buffer)),
            Kind::TonicUnix => runtime.block_on(read_tonic(connections, &tonic[1], bytes, buffer)),
        }
    }
}

fn read_bare(socket: &mut (impl Read + Write), bytes: u64, buffer: &mut [u8]) -> anyhow::Result<()> {
    socket.write_all(&bytes.to_le_bytes())?;
    let mut left = bytes as usize;
    while left > 0 {
        let part = left.min(buffer.len());
        socket.read_exact(&mut buffer[..part])?;
        left -= part;
    }
    Ok(())
}

async fn read_tonic(
    connections: &Connections,
    endpoint: &str,
    bytes: u64,
    buffer: &mut [u8],
) -> anyhow::Result<()> {
    let request = pb::FetchSliceRequest { deadline_ms: bytes, ..pb::FetchSliceRequest::default() };
    let mut stream =
        connections.shards(endpoint, &WorkerId::new("peer")?)?.fetch_slice(request).await?.into_inner();
    let mut at = 0;
    while let Some(chunk) = stream.message().await? {
        if at + chunk.data.len() > buffer.len() {
            at = 0;
        }
        buffer[at..at + chunk.data.len()].copy_from_slice(&chunk.data);
        at += chunk.data.len();
    }
    Ok(())
}

/// The peer's own life.
pub fn run(chunk_bytes: usize) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let memory = vec![1u8; MEMORY];
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let unix = UnixListener::bind(path("bare.sock"))?;
    let bare_tcp = tcp.local_addr()?.to_string();
    let of_tcp = memory.clone();
    let of_unix = memory.clone();
    thread::spawn(move || {
        let accepted = tcp.accept().and_then(|(socket, _)| socket.set_nodelay(true).map(|()| socket));
        accepted.and_then(|socket| send_bare(socket, &of_tcp, chunk_bytes))
    });
    thread::spawn(move || unix.accept().and_then(|(socket, _)| send_bare(socket, &of_unix, chunk_bytes)));

    let service = Echo { memory: memory.into(), chunk_bytes };
    let tonic_tcp = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tokio::spawn(server(service.clone()).serve_with_incoming(incoming));
        let unix = tokio::net::UnixListener::bind(path("tonic.sock"))?;
        tokio::spawn(server(service).serve_with_incoming(UnixListenerStream::new(unix)));
        io::Result::Ok(format!("http://{address}"))
    })?;
    let addresses = Addresses {
        bare_tcp,
        bare_unix: path("bare.sock").display().to_string(),
        tonic_tcp,
        tonic_unix: format!("unix://{}", path("tonic.sock").display()),
    };
    println!("{}", serde_json::to_string(&addresses)?);
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn send_bare(mut socket: impl Read + Write, memory: &[u8], chunk_bytes: usize) -> io::Result<()> {
    loop {
        let mut asked = [0; 8];
        socket.read_exact(&mut asked)?;
        let mut left = u64::from_le_bytes(asked) as usize;
        let mut at = 0;
        while left > 0 {
            let part = left.min(chunk_bytes).min(memory.len() - at);
            socket.write_all(&memory[at..at + part])?;
            left -= part;
            at = (at + part) % memory.len();
        }
    }
}

fn server(service: Echo) -> tonic::transport::server::Router {
    tonic::transport::Server::builder().add_service(ShardsServer::new(service))
}

/// As many bytes as `deadline_ms` says, in messages that tonic encodes.
#[derive(Clone)]
struct Echo {
    memory: Bytes,
    chunk_bytes: usize,
}

#[tonic::async_trait]
impl Shards for Echo {
    type FetchSliceStream = Pin<Box<dyn Stream<Item = Result<pb::Chunk, Status>> + Send>>;

    async fn fetch_slice(
        &self,
        request: Request<pb::FetchSliceRequest>,
    ) -> Result<Response<Self::FetchSliceStream>, Status> {
        let memory = self.memory.clone();
        let chunk = self.chunk_bytes;
        let bytes = request.into_inner().deadline_ms as usize;
        let starts = tokio_stream::iter((0..bytes).step_by(chunk));
        Ok(Response::new(Box::pin(starts.map(move |start| {
            let at = start % (memory.len() / chunk * chunk);
            let data = memory.slice(at..at + chunk.min(bytes - start));
            Ok(pb::Chunk { start: start as u64, data, ..pb::Chunk::default() })
        }))))
    }

    async fn snapshot(
        &self,
        _: Request<pb::SnapshotRequest>,
    ) -> Result<Response<pb::SnapshotResponse>, Status> {
        Err(Status::unimplemented("an echo"))
    }
}
