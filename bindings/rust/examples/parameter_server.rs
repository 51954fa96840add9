//! A parameter server and two workers as threads, with messages over channels.
use gradstep::{Error, Server, Transport, Worker, WorkerOptions};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

const FEATURES: usize = 5;
const STEPS: usize = 2000;

// [transport]
/// A rank of the job, which is a thread here.
struct Rank {
    rank: usize,
    to: Vec<Sender<(usize, Vec<u8>)>>, // one for each rank
    arrived: Receiver<(usize, Vec<u8>)>,
}

impl Transport for Rank {
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn rank(&self) -> usize {
        self.rank
    }
    fn ranks(&self) -> usize {
        self.to.len()
    }
    fn send(&self, to: usize, bytes: &[u8]) -> Result<(), Self::Error> {
        Ok(self.to[to].send((self.rank, bytes.to_vec()))?)
    }
    fn receive(&self, wait: Duration) -> Result<Option<(usize, Vec<u8>)>, Self::Error> {
        match self.arrived.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => Ok(None),
            got => Ok(Some(got?)),
        }
    }
}
// [transport]

// [server]
fn serve(by: &Rank) -> Result<(), Error> {
    let config = r#"{"mode": "asynchronous", "tensors": {
        "wide": {"rule": {"name": "ftrl", "l1": 0.001}, "schedule": {"name": "constant", "rate": 0.1},
                 "keyed_table": {"width": 1}},
        "bias": {"rule": {"name": "adagrad"}, "schedule": {"name": "constant", "rate": 0.1},
                 "parameter": {"size": 1}}}}"#;
    let mut server = Server::new(config, by.rank(), by.ranks())?;
    server.after_every(1000, |server| -> Result<(), Error> {
        let pushes = server.describe()?.pushes;
        let mut wide = server.keyed_table::<f32>("wide")?;
        println!("{pushes} pushes, {} rows evicted", wide.evict_to(200)?);
        Ok(())
    })?;
    server.run(by)?; // until every worker has stopped
    println!("bias {:.2}", server.parameter::<f32>("bias")?.values()?[0]);
    Ok(())
}
// [server]

/// The keys of the features of an example, and its label: 1 if most of them are even.
fn read_example(random: &mut u64) -> ([u64; FEATURES], f32) {
    let mut keys = [0; FEATURES];
    for (feature, key) in keys.iter_mut().enumerate() {
        *random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        *key = ((feature as u64) << 32) | ((*random >> 33) % 50);
    }
    let even = keys.iter().filter(|key| *key % 2 == 0).count();
    (keys, if even > FEATURES / 2 { 1.0 } else { 0.0 })
}

// [worker]
fn work(by: Rank) -> Result<usize, Error> {
    let mut random = by.rank() as u64;
    let worker = Worker::new(by, &WorkerOptions::default())?;
    let (mut weights, mut bias, mut right) = ([0.0f32; FEATURES], [0.0f32], 0);
    for step in 0..STEPS {
        let (keys, label) = read_example(&mut random);
        worker.pull("bias", &mut bias)?;
        worker.pull_rows("wide", &keys, &mut weights)?;
        let score = bias[0] + weights.iter().sum::<f32>();
        let wrong = 1.0 / (1.0 + (-score).exp()) - label;
        worker.push("bias", &[wrong])?;
        worker.push_rows("wide", &keys, &[wrong; FEATURES])?;
        right += usize::from(step >= STEPS / 2 && wrong.abs() < 0.5);
    }
    worker.stop()?; // waits until all pushes are applied
    Ok(100 * right / (STEPS / 2))
}
// [worker]

fn main() -> Result<(), Error> {
    let (to, arrived): (Vec<_>, Vec<_>) = (0..3).map(|_| channel()).unzip();
    let ranks = arrived.into_iter().enumerate().map(|(rank, arrived)| Rank {
        rank,
        to: to.clone(),
        arrived,
    });
    std::thread::scope(|scope| {
        let start = |by: Rank| {
            scope.spawn(move || {
                if by.rank() == 0 {
                    serve(&by).map(|_| 0)
                } else {
                    work(by)
                }
            })
        };
        let threads: Vec<_> = ranks.map(start).collect();
        for (rank, thread) in threads.into_iter().enumerate() {
            let right = thread.join().unwrap()?;
            if rank > 0 {
                println!("worker {rank} was right for {right} % of the second half");
                assert!(right > 70);
            }
        }
        Ok(())
    })
}
