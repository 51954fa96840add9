//! Servers and workers: numbers, checkpoints, tasks, and the errors and panics of functions of the program.
use super::*;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

type AnyError = Box<dyn std::error::Error + Send + Sync>;
type Letter = (usize, Vec<u8>);

/// The ranks of a job as threads of this process.
struct Threads {
    rank: usize,
    to: Vec<Sender<Letter>>,
    arrived: Receiver<Letter>,
}
impl Transport for Threads {
    type Error = AnyError;

    fn rank(&self) -> usize {
        self.rank
    }
    fn ranks(&self) -> usize {
        self.to.len()
    }
    fn timeout(&self) -> Duration {
        Duration::from_secs(20)
    }
    fn send(&self, to: usize, bytes: &[u8]) -> Result<(), AnyError> {
        let _ = self.to[to].send((self.rank, bytes.to_vec())); // a rank that has ended needs no messages
        Ok(())
    }
    fn receive(&self, wait: Duration) -> Result<Option<Letter>, AnyError> {
        match self.arrived.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => Ok(None),
            got => Ok(Some(got?)),
        }
    }
}
fn threads(ranks: usize) -> Vec<Threads> {
    let (to, arrived): (Vec<_>, Vec<_>) = (0..ranks).map(|_| channel()).unzip();
    let all = arrived.into_iter().enumerate();
    all.map(|(rank, arrived)| Threads {
        rank,
        to: to.clone(),
        arrived,
    })
    .collect()
}

/// The same for workers that several threads call.
struct Locked {
    rank: usize,
    to: Mutex<Vec<Sender<Letter>>>,
    arrived: Mutex<Receiver<Letter>>,
}
impl Transport for Locked {
    type Error = AnyError;

    fn rank(&self) -> usize {
        self.rank
    }
    fn ranks(&self) -> usize {
        self.to.lock().unwrap().len()
    }
    fn send(&self, to: usize, bytes: &[u8]) -> Result<(), AnyError> {
        Ok(self.to.lock().unwrap()[to].send((self.rank, bytes.to_vec()))?)
    }
    fn receive(&self, wait: Duration) -> Result<Option<Letter>, AnyError> {
        match self.arrived.lock().unwrap().recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => Ok(None),
            got => Ok(Some(got?)),
        }
    }
}

/// A server as rank 0 and a worker as rank 1 on one thread: the server handles at once what the worker sends.
struct OneThread {
    server: RefCell<Server>,
    arrived: RefCell<VecDeque<Letter>>,
}
impl OneThread {
    fn new(mut server: Server) -> Self {
        let first = server.begin().unwrap();
        let arrived = first.iter().map(|message| (0, message.bytes.to_vec())).collect();
        OneThread {
            server: RefCell::new(server),
            arrived: RefCell::new(arrived),
        }
    }
}
impl Transport for OneThread {
    type Error = Error;

    fn rank(&self) -> usize {
        1
    }
    fn ranks(&self) -> usize {
        2
    }
    fn send(&self, to: usize, bytes: &[u8]) -> Result<(), Error> {
        if to == 1 {
            self.arrived.borrow_mut().push_back((1, bytes.to_vec()));
            return Ok(());
        }
        let mut server = self.server.borrow_mut();
        for message in server.handle(1, bytes)? {
            assert_eq!(message.to, 1);
            self.arrived.borrow_mut().push_back((0, message.bytes.to_vec()));
        }
        Ok(())
    }
    fn receive(&self, _: Duration) -> Result<Option<Letter>, Error> {
        Ok(self.arrived.borrow_mut().pop_front())
    }
}

const TENSORS: &str = r#""tensors": {
    "w": {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}, "keyed_table": {"width": 1}},
    "v": {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}, "parameter": {"size": 4}},
    "n": {"rule": {"name": "add_delta"}, "schedule": {"name": "constant", "rate": 1}, "type": "uint32",
          "parameter": {"size": 2}},
    "t": {"rule": {"name": "sgd"}, "schedule": {"name": "constant", "rate": 1}, "type": "float64",
          "table": {"rows": 5, "width": 2, "initial": 1}}}"#;
fn config(options: &str) -> String {
    format!("{{{options}{TENSORS}}}")
}
fn server() -> Server {
    Server::new(&config(""), 0, 2).unwrap()
}
fn worker_of(server: Server) -> Worker<OneThread> {
    Worker::new(OneThread::new(server), &WorkerOptions::default()).unwrap()
}
fn info_of(worker: &Worker<OneThread>) -> ServerInfo {
    worker.transport().server.borrow().describe().unwrap()
}
fn sorted_keys(table: &KeyedTable<f32, impl Ownership>) -> Vec<u64> {
    let mut keys = table.keys().unwrap();
    keys.sort_unstable();
    keys
}
fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path); // of an earlier run
    path
}

/// Two servers and two workers: each step has the mean of the gradients of both.
#[test]
fn a_job_of_threads() {
    const STEPS: usize = 5;
    let text = config(r#""mode": "synchronous", "num_servers": 2, "#);
    let serve = |by: &Threads| -> Result<(), Error> {
        let mut server = Server::new(&text, by.rank(), by.ranks())?;
        server.run(by)?;
        assert!(server.describe()?.finished);
        match server.parameter::<f32>("v") {
            Ok(v) => {
                assert_eq!(v.values()?, [-1.5, -3.0, 0.0, -1.0].map(|w: f32| w * STEPS as f32));
                assert_eq!(v.clock()?.step as usize, STEPS);
            }
            other => refused(other, Code::BadValue, &["v is not on this server"]),
        }
        Ok(())
    };
    let work = |by: Threads| -> Result<(), Error> {
        let own = by.rank() as f32 - 1.0; // 1, 2
        let options = WorkerOptions {
            num_servers: 2,
            ..Default::default()
        };
        let worker = Worker::new(by, &options)?;
        let (keys, mut v, mut rows) = ([3u64, 5 << 40], [0.0f32; 4], [0.0f32; 2]);
        for step in 0..STEPS {
            worker.pull("v", &mut v)?;
            worker.pull_rows("w", &keys, &mut rows)?;
            assert_eq!(v[0], -1.5 * step as f32);
            assert_eq!(rows, [-1.5 * step as f32, -0.5 * step as f32]);
            worker.push("v", &[own, 2.0 * own, 0.0, 1.0])?;
            worker.push_rows("w", &keys, &[own, 0.5])?;
            worker.barrier()?;
        }
        let facts = worker.describe()?;
        assert_eq!((facts.workers, facts.position), (2, 3 * STEPS as u64));
        assert_eq!((facts.applied, facts.stopped), (3 * STEPS as u64, false));
        worker.stop()?;
        assert!(worker.describe()?.stopped);
        Ok(())
    };
    thread::scope(|scope| {
        let all = threads(4).into_iter().map(|by| {
            let (serve, work) = (&serve, &work);
            scope.spawn(move || if by.rank() < 2 { serve(&by) } else { work(by) })
        });
        let all: Vec<_> = all.collect();
        all.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    });
}

#[test]
fn a_server_answers_by_hand_and_lends_its_tensors() -> Result<(), Error> {
    let mut server = server();
    server.parameter::<f32>("v")?.set_values(&[1.0, 2.0, 3.0, 4.0])?;
    server.table::<f64>("t")?.set_rows(&[4i64], &[5.0, 6.0])?;
    assert_eq!(server.first_element("v")?, 0);
    let answers = server.handle(1, b"junk")?;
    assert_eq!((answers.len(), answers[0].to), (1, 1)); // its sender gets an error
    assert!(!answers[0].bytes.is_empty());

    let worker = worker_of(server);
    refused(
        worker.push("v", &[1.0f32; 4]),
        Code::BadSequence,
        &["rank 1 has not pulled v"],
    );
    let (mut v, mut n, mut rows, mut doubles) = ([0.0f32; 4], [0u32; 2], [0.0f32; 2], [0.0f64; 4]);
    worker.pull("v", &mut v)?;
    assert_eq!((v, worker.size("v")?), ([1.0, 2.0, 3.0, 4.0], 4));
    worker.push("v", &[0.5f32, 0.0, 0.0, 0.0])?;
    worker.pull("n", &mut n)?;
    worker.push("n", &[1, u32::MAX])?;
    worker.pull("n", &mut n)?;
    assert_eq!(n, [1, u32::MAX]);
    worker.pull_rows("t", &[4i32, 0], &mut doubles)?;
    assert_eq!(doubles, [5.0, 6.0, 1.0, 1.0]);
    worker.pull_rows("w", &[5u64, 7], &mut rows)?;
    worker.push_rows("w", &[5u64, 7], &[1.0f32, 2.0])?;
    worker.barrier()?;
    let facts = worker.describe()?;
    assert_eq!((facts.position, facts.applied, facts.workers), (4, 4, 1));
    {
        let mut server = worker.transport().server.borrow_mut();
        let v = server.parameter::<f32>("v")?;
        assert_eq!((v.values()?, v.len()), (&[0.5, 2.0, 3.0, 4.0][..], 4));
        assert_eq!(server.parameter::<u32>("n")?.values()?, [1, u32::MAX]);
        let w = server.keyed_table::<f32>("w")?;
        assert_eq!((sorted_keys(&w), w.row(7u64)?), (vec![5, 7], vec![-2.0]));
        let info = server.describe()?;
        assert_eq!(
            (info.tensors, info.pushes, info.staleness, info.finished),
            (4, 3, 0.0, false)
        );

        refused(
            server.parameter::<f64>("v"),
            Code::BadConfig,
            &["float32", "Parameter<f64>"],
        );
        refused(server.parameter::<i32>("n"), Code::BadConfig, &["uint32"]);
        refused(server.keyed_table::<f64>("w"), Code::BadConfig, &["KeyedTable<f64>"]);
        refused(server.table::<f32>("w"), Code::BadConfig, &["expected a KeyedTable"]);
        refused(server.parameter::<f32>("w"), Code::BadValue, &["w is a table"]);
        refused(server.table::<f32>("x"), Code::BadValue, &["\"x\" is unknown"]);
        refused(server.first_element("x\0"), Code::BadValue, &["byte 0"]);
    }
    refused(worker.pull("x", &mut v), Code::BadValue, &["x"]);
    refused(worker.pull("v", &mut doubles), Code::BadValue, &[]);
    refused(worker.pull("v", &mut rows), Code::BadSize, &[]);
    refused(worker.pull("w", &mut v), Code::BadValue, &[]);
    refused(worker.pull_rows("w", &[1u64], &mut rows), Code::BadSize, &[]);
    refused(
        worker.pull_rows("w", &[1u32], &mut rows[..1]),
        Code::BadValue,
        &["uint32"],
    );
    worker.stop()?;
    refused(worker.pull("v", &mut v), Code::BadSequence, &[]);
    assert!(info_of(&worker).finished);
    worker.transport().server.borrow_mut().reopen()?;
    assert!(!info_of(&worker).finished);
    Ok(())
}

#[test]
fn tasks_run_between_messages() -> Result<(), Error> {
    #[derive(Debug)]
    struct DiskIsFull;
    impl std::fmt::Display for DiskIsFull {
        fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            to.write_str("the disk is full")
        }
    }
    impl std::error::Error for DiskIsFull {}

    let (mut server, seen) = (server(), Arc::new(Mutex::new((0, 0))));
    let by_task = seen.clone();
    server.after_every(2, move |server| -> Result<(), AnyError> {
        let mut seen = by_task.lock().unwrap();
        seen.0 += 1;
        match seen.0 {
            4 => return Err(DiskIsFull.into()),
            5 => panic!("the task {}", seen.0),
            _ => {}
        }
        seen.1 += server.keyed_table::<f32>("w")?.evict_to(3)?;
        assert_eq!(server.table::<f64>("t")?.row(0i64)?, [1.0, 1.0]);
        assert_eq!(server.describe()?.pushes, 2 * seen.0);
        Ok(())
    })?;
    refused(
        server.after_every(0, |_| Ok::<(), Error>(())),
        Code::BadValue,
        &["0 is out of range"],
    );
    let worker = worker_of(server);
    let step = |t: u64| {
        let keys = [2 * t, 2 * t + 1];
        worker.pull_rows("w", &keys, &mut [0.0f32; 2])?;
        worker.push_rows("w", &keys, &[1.0f32, 1.0])
    };
    (0..6).try_for_each(step)?;
    worker.barrier()?;
    assert_eq!(*seen.lock().unwrap(), (3, 9));
    let keys = sorted_keys(&worker.transport().server.borrow_mut().keyed_table("w")?);
    assert_eq!(keys[1..], [10, 11]);

    step(6)?;
    let failed = step(7).unwrap_err(); // of the transport, whose `send` got it from `handle`
    assert_eq!(failed.code(), Code::RankFailed, "{failed}");
    let of_handle = failed.source().unwrap().downcast_ref::<Error>().unwrap();
    assert_eq!(
        (of_handle.code(), of_handle.message()),
        (Code::BadValue, "task: the disk is full")
    );
    assert!(of_handle.source().unwrap().is::<DiskIsFull>());
    assert!(
        failed.message().contains("transport.send: task: the disk is full"),
        "{failed}"
    );
    assert_eq!(&failed.clone(), &failed);
    Ok(())
}

/// The outcome of a server whose task is this one. Its worker gets an error.
fn run_with(
    mut task: impl FnMut() -> Result<(), AnyError> + Send + Copy + 'static,
) -> thread::Result<Result<(), Error>> {
    let mut all = threads(2).into_iter();
    let (of_server, of_worker) = (all.next().unwrap(), all.next().unwrap());
    thread::scope(|scope| {
        let serving = scope.spawn(move || {
            let mut server = server();
            server.after_every(1, move |_| task())?;
            server.run(&of_server)
        });
        let worker = Worker::new(of_worker, &WorkerOptions::default()).unwrap();
        worker.pull("v", &mut [0.0f32; 4]).unwrap();
        worker.push("v", &[0.0f32; 4]).unwrap();
        refused(worker.barrier(), Code::RankFailed, &["task"]);
        serving.join()
    })
}

/// A panic of a task or of a transport goes on when C has returned, and the other ranks get an error.
#[test]
fn errors_and_panics_go_through_calls() {
    let failed = run_with(|| Err("out of luck".into())).unwrap().unwrap_err();
    assert_eq!((failed.code(), failed.message()), (Code::BadValue, "task: out of luck"));
    assert_eq!(failed.source().unwrap().to_string(), "out of luck");
    let panic = run_with(|| panic!("of the task")).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the task"));

    let panic = |by: &Failing| catch_unwind(AssertUnwindSafe(|| server().run(by))).unwrap_err();
    let by = Failing::at(0, "receive", true);
    assert_eq!(panic(&by).downcast_ref::<&str>(), Some(&"of the transport"));
    let worker = || Worker::new(Failing::at(1, "send", true), &WorkerOptions::default());
    let panic = catch_unwind(AssertUnwindSafe(worker)).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the transport"));
}

/// A transport of two ranks, one of whose functions fails.
struct Failing {
    rank: Cell<usize>,
    at: &'static str,
    panics: bool,
    timeout: Cell<Duration>,
}
impl Failing {
    fn at(rank: usize, at: &'static str, panics: bool) -> Self {
        Failing {
            rank: Cell::new(rank),
            at,
            panics,
            timeout: Cell::new(Duration::from_millis(20)),
        }
    }
    fn fail(&self, at: &str) -> std::io::Result<()> {
        match (self.at == at, self.panics) {
            (true, true) => panic!("of the transport"),
            (true, false) => Err(std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the cable is cut")),
            _ => Ok(()),
        }
    }
}
impl Transport for Failing {
    type Error = std::io::Error;

    fn rank(&self) -> usize {
        self.rank.get()
    }
    fn ranks(&self) -> usize {
        2
    }
    fn timeout(&self) -> Duration {
        self.timeout.get()
    }
    fn send(&self, _: usize, _: &[u8]) -> std::io::Result<()> {
        self.fail("send")
    }
    fn receive(&self, _: Duration) -> std::io::Result<Option<Letter>> {
        self.fail("receive").map(|_| None)
    }
}

#[test]
fn errors_of_transports() -> Result<(), Error> {
    let is_cut = |failed: Error, at: &str| {
        assert_eq!(failed.code(), Code::RankFailed);
        assert!(
            failed.message().contains(&format!("transport.{at}: the cable is cut")),
            "{failed}"
        );
        let source = failed.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(source.kind(), std::io::ErrorKind::BrokenPipe);
    };
    is_cut(server().run(&Failing::at(0, "receive", false)).unwrap_err(), "receive");
    for at in ["send", "receive"] {
        let by = Failing::at(1, at, false);
        is_cut(Worker::new(&by, &WorkerOptions::default()).unwrap_err(), at);
    }
    let by = Failing::at(1, "nowhere", false);
    let create = |options: &WorkerOptions| Worker::new(&by, options);
    let silent = create(&WorkerOptions::default()).unwrap_err();
    assert_eq!(
        (silent.code(), silent.message()),
        (
            Code::RankFailed,
            "rank 1: worker: rank 0 has not taken part within 40 ms"
        )
    );
    assert!(silent.source().is_none());
    by.timeout.set(Duration::from_nanos(1)); // 1 ms
    refused(create(&WorkerOptions::default()), Code::RankFailed, &["2 ms"]);
    by.timeout.set(Duration::ZERO);
    refused(create(&WorkerOptions::default()), Code::BadValue, &["timeout_ms: 0"]);
    by.timeout.set(Duration::MAX);
    for options in [
        WorkerOptions {
            max_in_flight: 0,
            ..Default::default()
        },
        WorkerOptions {
            num_servers: usize::MAX,
            ..Default::default()
        },
    ] {
        refused(create(&options), Code::BadValue, &["worker"]);
    }
    by.rank.set(2);
    refused(create(&WorkerOptions::default()), Code::BadValue, &["rank: 2"]);
    let mut server = server();
    refused(server.run(&by), Code::BadValue, &["rank: 2"]);
    refused(Server::new(&config(""), 0, 1), Code::BadConfig, &[]); // no rank is left for workers
    refused(Server::new("{}", 0, 2), Code::BadConfig, &["tensors"]);
    refused(server.checkpoint("x\0", 1), Code::BadValue, &["byte 0"]);
    Ok(())
}

/// A transport must not use its worker: it gets an error instead of waiting for itself.
#[test]
fn a_transport_does_not_use_its_worker() -> Result<(), Error> {
    #[derive(Default)]
    struct Curious {
        of: RefCell<Option<std::rc::Weak<Worker<Curious>>>>,
        inner: RefCell<Option<OneThread>>,
        seen: RefCell<Option<Error>>,
    }
    impl Transport for Curious {
        type Error = Error;

        fn rank(&self) -> usize {
            1
        }
        fn ranks(&self) -> usize {
            2
        }
        fn send(&self, to: usize, bytes: &[u8]) -> Result<(), Error> {
            if let Some(worker) = self.of.borrow().as_ref().and_then(|of| of.upgrade()) {
                *self.seen.borrow_mut() = worker.barrier().err();
            }
            self.inner.borrow().as_ref().unwrap().send(to, bytes)
        }
        fn receive(&self, wait: Duration) -> Result<Option<Letter>, Error> {
            self.inner.borrow().as_ref().unwrap().receive(wait)
        }
    }
    let by = Curious {
        inner: RefCell::new(Some(OneThread::new(server()))),
        ..Default::default()
    };
    let worker = std::rc::Rc::new(Worker::new(by, &WorkerOptions::default())?);
    *worker.transport().of.borrow_mut() = Some(std::rc::Rc::downgrade(&worker));
    worker.pull("v", &mut [0.0f32; 4])?;
    let seen = worker.transport().seen.take().unwrap();
    assert_eq!(seen.code(), Code::BadSequence, "{seen}");
    worker.stop()
}

#[test]
fn servers_and_workers_restart() -> Result<(), Error> {
    let path = file("server.safetensors");
    let begin = || {
        let mut server = server();
        server.checkpoint(&path, 2).unwrap();
        worker_of(server)
    };
    let (ones, mut v) = ([1.0f32; 4], [0.0f32; 4]);
    {
        let worker = begin();
        worker.pull("v", &mut v)?;
        (0..3).try_for_each(|_| worker.push("v", &ones))?;
        worker.pull("v", &mut v)?;
        assert_eq!(v[0], -3.0);
    } // both are killed: the file has two pushes
    let worker = begin();
    let facts = worker.describe()?;
    assert_eq!((facts.position, facts.durable), (2, 2));
    worker.go_on_from(1)?;
    worker.pull("v", &mut v)?;
    assert_eq!(v[0], -2.0);
    (1..4).try_for_each(|_| worker.push("v", &ones))?; // the server has the first one already
    worker.pull("v", &mut v)?;
    assert_eq!(v[0], -4.0);
    refused(worker.go_on_from(0), Code::BadSequence, &[]);
    worker.stop()?;

    let mut other = server();
    other.load_file(&path)?;
    assert!(other.describe()?.finished);
    assert_eq!(other.parameter::<f32>("v")?.values()?, [-4.0; 4]);
    other.save_file(&path)?;
    assert!(file_names(&path)?.contains(&"v".to_string()));
    std::fs::remove_file(&path).unwrap();
    let missing = other.load_file(&path).unwrap_err();
    assert_eq!(missing.io_kind(), Some(std::io::ErrorKind::NotFound));
    Ok(())
}

/// Threads call one worker at once, and no push is lost.
#[test]
fn threads_share_a_worker() {
    const THREADS: usize = 4;
    const STEPS: usize = 25;
    let mut all = threads(2).into_iter();
    let (of_server, own) = (all.next().unwrap(), all.next().unwrap());
    let of_worker = Locked {
        rank: own.rank,
        to: Mutex::new(own.to),
        arrived: Mutex::new(own.arrived),
    };
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut server = server();
            server.run(&of_server).unwrap();
            let info = server.describe().unwrap();
            assert_eq!(info.pushes as usize, THREADS * STEPS);
            assert_eq!(
                server.parameter::<f32>("v").unwrap().values().unwrap()[3],
                -((THREADS * STEPS) as f32)
            );
        });
        let worker = SharedWorker::new(of_worker, &WorkerOptions::default()).unwrap();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..STEPS {
                        worker.pull("v", &mut [0.0f32; 4]).unwrap();
                        worker.push("v", &[1.0f32; 4]).unwrap();
                    }
                });
            }
        });
        worker.stop().unwrap();
    });

    fn sent<T: Send>() {}
    fn shared<T: Send + Sync>() {}
    sent::<Server>();
    sent::<Worker<Threads>>();
    shared::<SharedWorker<Locked>>();
    sent::<KeyedTable<f32, Borrowed<'_>>>();
    has_not!(Server, Sync);
    has_not!(Worker<Locked>, Sync);
    has_not!(Worker<&Threads>, Send);
    has_not!(Geo<'_, Threads, f32>, Send);
}

/// A parameter of a worker exchanges its changes: with one worker the servers follow it.
#[test]
fn a_parameter_exchanges_its_changes() -> Result<(), Error> {
    let text = r#"{"mode": "geo", "tensors": {"w": {"rule": {"name": "add_delta"},
        "schedule": {"name": "constant", "rate": 1}, "parameter": {"size": 6, "initial": 0.5}}}}"#;
    let worker = worker_of(Server::new(text, 0, 2)?);
    let mut alone = Parameter::new(MOMENTUM, &[0.5f32; 6])?;
    let mut geo = Geo::new(&worker, "w", Parameter::new(MOMENTUM, &[0.0f32; 6])?)?;
    assert_eq!(geo.parameter().values()?, [0.5; 6]);
    let mut pulled = [0.0f32; 6];
    for step in 0..6 {
        let gradient = values(6, |i| (i + f64::from(step)).cos());
        alone.update(&gradient, &default())?;
        if step % 2 == 0 {
            geo.parameter().update(&gradient, &default())?;
        } else {
            update_all([geo.parameter().with(&gradient)], &default())?;
        }
        if step % 3 == 2 {
            geo.exchange()?;
            worker.pull("w", &mut pulled)?;
            assert_eq!(pulled, geo.parameter().values()?);
        }
    }
    for (pulled, alone) in pulled.iter().zip(alone.values()?) {
        assert!((pulled - alone).abs() <= 2.0 * f32::EPSILON, "{pulled} {alone}");
        // half a unit for each exchange
    }
    let mut own = geo.into_parameter();
    own.append(&[1.0])?;
    assert_eq!(own.len(), 7);
    worker.barrier()?;
    refused(Geo::new(&worker, "x", own), Code::BadValue, &["x"]);
    worker.stop()
}

/// A dense parameter has shards on two servers.
#[test]
fn shards_begin_where_the_parameter_is_split() -> Result<(), Error> {
    let text = config(r#""num_servers": 2, "split_from": 8, "#).replace(r#""size": 4"#, r#""size": 10000"#);
    let mut begins = Vec::new();
    for rank in [0, 1] {
        let mut server = Server::new(&text, rank, 3)?;
        begins.push((server.first_element("v")?, server.parameter::<f32>("v")?.len()));
        assert_eq!(format!("{server:?}").matches("tensors").count(), 1);
    }
    assert_eq!(begins, [(0, 8192), (8192, 1808)]);
    Ok(())
}
