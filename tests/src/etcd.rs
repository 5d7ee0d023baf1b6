//! Real etcd processes (Debian's `etcd-server`) on ports of this host.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::ports::free_port;

const START: Duration = Duration::from_secs(30);

/// One cluster in a folder of its own. Killed when dropped.
pub struct Etcd {
    folder: tempfile::TempDir,
    members: Vec<Member>,
    security: Option<Security>,
    arguments: Vec<String>,
    /// Removes the folder when its input ends: with this process, however that goes.
    _sweeper: Option<Child>,
}

/// TLS for clients of etcd.
pub struct Security {
    /// The folder of `ca.pem`, `cert.pem` and `key.pem`.
    pub dir: PathBuf,
    /// Clients have to show a certificate.
    pub asks_clients: bool,
}

struct Member {
    client: u16,
    /// Reports health without TLS.
    health: u16,
    peer: u16,
    process: Option<Child>,
}

impl Etcd {
    pub fn start(members: usize) -> Self {
        Self::start_with(members, None, vec![])
    }

    pub fn start_secured(members: usize, security: Security) -> Self {
        Self::start_with(members, Some(security), vec![])
    }

    pub fn start_small(members: usize, bytes: u64) -> Self {
        Self::start_with(members, None, vec![format!("--quota-backend-bytes={bytes}")])
    }

    fn start_with(members: usize, security: Option<Security>, arguments: Vec<String>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let member =
            |_| Member { client: free_port(), health: free_port(), peer: free_port(), process: None };
        let members = (0..members).map(member).collect();
        let mut etcd = Self { folder, members, security, arguments, _sweeper: None };
        (0..etcd.members.len()).for_each(|index| etcd.spawn(index));
        etcd.wait_healthy();
        etcd
    }

    /// One that is never dropped leaves 130 MB all the same: the process that waits for this one's end removes them.
    pub fn for_the_process(members: usize) -> Self {
        let mut etcd = Self::start(members);
        let sweeper = Command::new("sh")
            .args(["-c", "cat >/dev/null; sleep 0.2; rm -rf \"$0\""])
            .arg(etcd.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        etcd._sweeper = Some(sweeper.expect("a shell starts"));
        etcd
    }

    /// `host:port` of a member.
    pub fn address(&self, index: usize) -> String {
        format!("127.0.0.1:{}", self.members[index].client)
    }

    /// Returns the URL for `--store`.
    pub fn url(&self, prefix: &str) -> String {
        let members: Vec<_> = (0..self.members.len()).map(|index| self.address(index)).collect();
        format!("etcd://{}/{prefix}", members.join(","))
    }

    /// `etcdctl`, with what the members themselves show.
    pub fn control(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.address(0)]);
        if let Some(Security { dir, .. }) = &self.security {
            for (flag, file) in [("--cacert", "ca.pem"), ("--cert", "cert.pem"), ("--key", "key.pem")] {
                command.arg(flag).arg(dir.join(file));
            }
        }
        let output = command.args(arguments).output().expect("etcdctl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Turns on authentication: `user` may access the keys under `prefix`, and root all of them.
    pub fn ask_for_passwords(&self, user: &str, password: &str, prefix: &str) {
        self.control(&["user", "add", "root:root's own"]);
        self.control(&["user", "grant-role", "root", "root"]);
        self.control(&["user", "add", &format!("{user}:{password}")]);
        self.control(&["role", "add", "ledger"]);
        self.control(&["role", "grant-permission", "--prefix=true", "ledger", "readwrite", prefix]);
        self.control(&["user", "grant-role", user, "ledger"]);
        self.control(&["auth", "enable"]);
    }

    /// SIGKILL.
    pub fn kill(&mut self, index: usize) {
        if let Some(mut process) = self.members[index].process.take() {
            process.kill().and_then(|()| process.wait()).expect("etcd is killed");
        }
    }

    /// Starts a member again on its own data.
    pub fn restart(&mut self, index: usize) {
        self.spawn(index);
        self.wait_healthy();
    }

    /// Puts a cluster of one member back to what `etcdctl snapshot save` wrote.
    pub fn restore(&mut self, snapshot: &Path) {
        self.kill(0);
        let data = self.folder.path().join("m0");
        std::fs::remove_dir_all(&data).expect("its data");
        let peer = format!("http://127.0.0.1:{}", self.members[0].peer);
        let restored = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore", "--name", "m0", "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("m0={peer}"), "--data-dir"])
            .args([&data, snapshot])
            .output()
            .expect("etcdctl runs");
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        self.restart(0);
    }

    fn spawn(&mut self, index: usize) {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let scheme = if self.security.is_some() { "https" } else { "http" };
        let cluster: Vec<_> =
            self.members.iter().enumerate().map(|(i, member)| format!("m{i}={}", url(member.peer))).collect();
        let Member { client, health, peer, .. } = self.members[index];
        let client = format!("{scheme}://127.0.0.1:{client}");
        let mut of_tls = Vec::new();
        if let Some(Security { dir, asks_clients }) = &self.security {
            let mut files = vec![("--cert-file", "cert.pem"), ("--key-file", "key.pem")];
            // That it has one is enough for etcd to ask.
            if *asks_clients {
                files.push(("--trusted-ca-file", "ca.pem"));
                of_tls.push("--client-cert-auth".into());
            }
            for (flag, file) in files {
                of_tls.extend([flag.into(), dir.join(file).into_os_string()]);
            }
        }
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join(format!("m{index}.log")))
            .expect("a log");
        // Ends with the thread that started it, however that ends.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "etcd", "--name", &format!("m{index}"), "--data-dir"])
            .arg(self.folder.path().join(format!("m{index}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-metrics-urls", &url(health)])
            .args(of_tls)
            .args(&self.arguments)
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &cluster.join(",")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd starts: install etcd-server (tests/setup/etcd.sh)");
        self.members[index].process = Some(process);
    }

    /// Every member that runs has a leader.
    fn wait_healthy(&mut self) {
        let deadline = Instant::now() + START;
        for (index, member) in self.members.iter_mut().enumerate() {
            let Some(process) = &mut member.process else { continue };
            while !is_healthy(member.health) {
                let ended = process.try_wait().expect("its status");
                if ended.is_some() || Instant::now() > deadline {
                    let said = last_lines(&self.folder.path().join(format!("m{index}.log")));
                    panic!("etcd is not healthy within {START:?} (ended: {ended:?}). It said:\n{said}");
                }
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|index| self.kill(index));
    }
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

fn is_healthy(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}

/// Forwards connections to one address until it is cut: then nothing passes, and nothing is closed.
pub struct Cable {
    address: SocketAddr,
    cuts: Arc<Cuts>,
}

#[derive(Default)]
struct Cuts {
    there: AtomicBool,
    back: AtomicBool,
}

impl Cable {
    pub fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let cuts = Arc::new(Cuts::default());
        let of_all = cuts.clone();
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if let Ok(far) = TcpStream::connect(&target) {
                    let there = of_all.clone();
                    let back = of_all.clone();
                    carry(&near, &far, move || there.there.load(Ordering::SeqCst));
                    carry(&far, &near, move || back.back.load(Ordering::SeqCst));
                }
            }
        });
        Self { address, cuts }
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Cuts both directions.
    pub fn cut(&self) {
        self.cuts.there.store(true, Ordering::SeqCst);
        self.cut_answers();
    }

    /// Cuts the answers alone. Requests still arrive.
    pub fn cut_answers(&self) {
        self.cuts.back.store(true, Ordering::SeqCst);
    }

    pub fn mend(&self) {
        self.cuts.there.store(false, Ordering::SeqCst);
        self.cuts.back.store(false, Ordering::SeqCst);
    }
}

/// Carries bytes and holds them back during a cut: a healed partition delivers them late.
fn carry(from: &TcpStream, to: &TcpStream, is_cut: impl Fn() -> bool + Send + 'static) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    thread::spawn(move || {
        let mut bytes = [0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            while is_cut() {
                thread::sleep(Duration::from_millis(10));
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}
