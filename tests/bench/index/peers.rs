// peers.rs - replay a workload (pbw1.h) into indexes of others: the crate kv-index of SMG.
//
//   index_peers FILE SERVERS
//
// tests/bench/index.sh peers builds it. The operations are those of bench_index: match the whole
// pages of a prompt, then store them for server key % N. Of each operation the least of three
// replays counts. TokenTree reads tokens and hashes nothing. ChainIndex reads content hashes;
// op=hash is the time to make them, which no other line includes. The hashes that only a store
// needs are made before, because an engine would send them.
use kv_index::{
    compute_request_content_hashes, request_prefix_hashes, ChainBlockMap, ChainIndex, ContentHash,
    StoredBlock, TokenTree,
};
use std::hint::black_box;
use std::time::Instant;

const REPLAYS: usize = 3;
const PAGE: usize = 16; // the only one of TokenTree

struct Op {
    server: usize,
    tokens: Vec<u32>,
}

fn read(path: &str, servers: usize) -> Vec<Op> {
    let file = std::fs::read(path).expect("the workload can be read");
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut ops) = (24, Vec::new());

    assert!(&file[..4] == b"PBW1" && word(4) as usize == PAGE, "PBW1 with pages of {PAGE}");
    while at < file.len() {
        let n = word(at + 4) as usize;
        ops.push(Op {
            server: word(at) as usize % servers,
            tokens: (0..n).map(|i| word(at + 8 + 4 * i)).collect(),
        });
        at += 8 + 4 * n;
    }
    ops
}

// The least time of each operation.
struct Series(Vec<u64>);

impl Series {
    fn new(ops: &[Op]) -> Self {
        Series(vec![u64::MAX; ops.len()])
    }

    fn time<T>(&mut self, i: usize, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let out = black_box(f());
        self.0[i] = self.0[i].min(start.elapsed().as_nanos() as u64);
        out
    }

    fn say(mut self, peer: &str, workload: &str, servers: usize, op: &str) {
        let mean = self.0.iter().sum::<u64>() as f64 / self.0.len() as f64;
        self.0.sort_unstable();
        println!(
            "bench index_peer peer={peer} workload={workload} servers={servers} page={PAGE} \
             op={op} mean_ns={mean:.0} p50_ns={} p99_ns={}",
            self.0[self.0.len() / 2],
            self.0[self.0.len() * 99 / 100]
        );
    }
}

fn token_tree(ops: &[Op], names: &[String], workload: &str) {
    let (mut apart, mut fused, mut full) = (Series::new(ops), Series::new(ops), Series::new(ops));
    let mut matched = 0;

    for _ in 0..REPLAYS {
        let tree = TokenTree::new();
        matched = 0;
        for (i, op) in ops.iter().enumerate() {
            let found = apart.time(i, || tree.match_prefix_with_counts(&op.tokens));
            matched += found.matched_token_count / PAGE;
            tree.insert_tokens(&op.tokens, &names[op.server]);
        }
        for (i, op) in ops.iter().enumerate() {
            full.time(i, || tree.match_prefix_with_counts(&op.tokens));
        }
        let tree = TokenTree::new();
        for (i, op) in ops.iter().enumerate() {
            fused.time(i, || {
                tree.match_and_insert_with(&op.tokens, |_| Some(names[op.server].as_str()))
            });
        }
    }
    apart.say("token_tree", workload, names.len(), "match");
    fused.say("token_tree", workload, names.len(), "match+commit");
    full.say("token_tree", workload, names.len(), "full_hit");
    println!("bench index_peer peer=token_tree workload={workload} matched_pages={matched}");
}

// Return the most pages of any server, and those of <server>.
fn lookup(index: &ChainIndex, contents: &[ContentHash], server: u32) -> (usize, usize) {
    let (mut most, mut own) = (0, 0);

    index.score_into(contents, |c| c.0, false, |worker, pages| {
        most = most.max(pages as usize);
        own = if worker == server { pages as usize } else { own };
    });
    (most, own)
}

fn store(
    index: &ChainIndex, map: &mut ChainBlockMap, blocks: &[StoredBlock], server: u32, own: usize,
) {
    let parent = own.checked_sub(1).map(|last| blocks[last].seq_hash);

    index.apply_stored(server, &blocks[own..], parent, map).expect("a parent that is held");
}

fn chain_index(ops: &[Op], names: &[String], workload: &str) {
    let (mut apart, mut fused, mut full) = (Series::new(ops), Series::new(ops), Series::new(ops));
    let (mut hash, mut matched) = (Series::new(ops), 0);

    for replay in 0..2 * REPLAYS {
        let index = ChainIndex::new();
        let id: Vec<u32> =
            names.iter().map(|n| index.intern_worker(n).expect("a number")).collect();
        let mut maps: Vec<ChainBlockMap> = names.iter().map(|_| ChainBlockMap::new()).collect();
        matched = 0;
        for (i, op) in ops.iter().enumerate() {
            let contents = hash.time(i, || compute_request_content_hashes(&op.tokens, PAGE));
            let blocks: Vec<StoredBlock> = request_prefix_hashes(&contents)
                .into_iter()
                .zip(&contents)
                .map(|(seq_hash, &content_hash)| StoredBlock { seq_hash, content_hash })
                .collect();
            let (server, map) = (id[op.server], &mut maps[op.server]);
            if replay % 2 == 0 {
                let (most, own) = apart.time(i, || lookup(&index, &contents, server));
                store(&index, map, &blocks, server, own);
                matched += most;
            } else {
                matched += fused.time(i, || {
                    let (most, own) = lookup(&index, &contents, server);
                    store(&index, map, &blocks, server, own);
                    most
                });
            }
        }
        for (i, op) in ops.iter().enumerate().filter(|_| replay % 2 == 0) {
            let contents = compute_request_content_hashes(&op.tokens, PAGE);
            full.time(i, || lookup(&index, &contents, id[op.server]));
        }
    }
    apart.say("chain_index", workload, names.len(), "match");
    fused.say("chain_index", workload, names.len(), "match+commit");
    full.say("chain_index", workload, names.len(), "full_hit");
    hash.say("chain_index", workload, names.len(), "hash");
    println!("bench index_peer peer=chain_index workload={workload} matched_pages={matched}");
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let servers: usize =
        args.get(2).and_then(|s| s.parse().ok()).expect("index_peers FILE SERVERS");
    let name = std::path::Path::new(&args[1]).file_stem().unwrap().to_string_lossy().into_owned();
    let names: Vec<String> = (0..servers).map(|i| format!("http://10.0.0.{i}:8000")).collect();
    let ops = read(&args[1], servers);

    token_tree(&ops, &names, &name);
    chain_index(&ops, &names, &name);
}
