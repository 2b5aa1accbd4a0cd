package config

import (
	"math"
	"strings"
)

// The keys, for use in code.
const (
	Parallelism       = "parallelism.default"
	MaxParallelism    = "pipeline.max-parallelism"
	WatermarkInterval = "pipeline.auto-watermark-interval"
	RuntimeMode       = "execution.runtime-mode"
	BufferTimeout     = "execution.buffer-timeout.interval"

	CheckpointInterval    = "execution.checkpointing.interval"
	CheckpointDir         = "execution.checkpointing.dir"
	SavepointDir          = "execution.checkpointing.savepoint-dir"
	CheckpointMode        = "execution.checkpointing.mode"
	CheckpointTimeout     = "execution.checkpointing.timeout"
	CheckpointIncremental = "execution.checkpointing.incremental"
	CheckpointMinPause    = "execution.checkpointing.min-pause"
	CheckpointConcurrent  = "execution.checkpointing.max-concurrent-checkpoints"
	CheckpointTolerable   = "execution.checkpointing.tolerable-failed-checkpoints"
	CheckpointRetained    = "execution.checkpointing.num-retained"
	CheckpointRetention   = "execution.checkpointing.externalized-checkpoint-retention"
	PreferCheckpoint      = "execution.checkpointing.prefer-checkpoint-for-recovery"
	RestorePath           = "execution.state-recovery.path"
	ClaimMode             = "execution.state-recovery.claim-mode"
	AllowNonRestored      = "execution.state-recovery.ignore-unclaimed-state"

	StateBackend = "state.backend.type"
	HeapMemory   = "state.backend.heap.memory"
	LSMMemory    = "state.backend.lsm.memory"
	LSMDir       = "state.backend.lsm.dir"

	Failover          = "jobmanager.execution.failover-strategy"
	RestartType       = "restart-strategy.type"
	FixedAttempts     = "restart-strategy.fixed-delay.attempts"
	FixedDelay        = "restart-strategy.fixed-delay.delay"
	RateMax           = "restart-strategy.failure-rate.max-failures-per-interval"
	RateInterval      = "restart-strategy.failure-rate.failure-rate-interval"
	RateDelay         = "restart-strategy.failure-rate.delay"
	BackoffInitial    = "restart-strategy.exponential-delay.initial-backoff"
	BackoffMax        = "restart-strategy.exponential-delay.max-backoff"
	BackoffMultiplier = "restart-strategy.exponential-delay.backoff-multiplier"
	BackoffJitter     = "restart-strategy.exponential-delay.jitter-factor"
	BackoffReset      = "restart-strategy.exponential-delay.reset-backoff-threshold"
	BackoffAttempts   = "restart-strategy.exponential-delay.attempts-before-reset-backoff"

	HTTPAddress = "http.address"
	LogLevel    = "log.level"
	LogFormat   = "log.format"
)

// Values of options with a choice.
const (
	ExactlyOnce = "EXACTLY_ONCE"
	AtLeastOnce = "AT_LEAST_ONCE"

	RetainAlways   = "RETAIN_ON_CANCELLATION"
	DeleteOnCancel = "DELETE_ON_CANCELLATION"
	DeleteAlways   = "NO_EXTERNALIZED_CHECKPOINTS"

	Heap = "heap"
	LSM  = "lsm"
	// Flink's names of backends: for heap with snapshots in memory, for heap, and
	// for the one on disk.
	backendMemory     = "memory"
	backendFilesystem = "filesystem"
	backendHashMap    = "hashmap"
	backendRocksDB    = "rocksdb"

	Streaming = "STREAMING"
	Batch     = "BATCH"
	Automatic = "AUTOMATIC"

	NoClaim = "NO_CLAIM"
	Claim   = "CLAIM"

	FailoverRegion = "region"
	FailoverFull   = "full"

	RestartNone        = "none"
	RestartFixed       = "fixed-delay"
	RestartFailureRate = "failure-rate"
	RestartExponential = "exponential-delay"

	// MemoryDir keeps snapshots in memory.
	MemoryDir = "memory:"

	// HTTPOff is the address of no server.
	HTTPOff = "off"
)

// options is in the order of documentation.
var options = []*Option{
	{Key: Parallelism, Kind: integer(1, 1<<15), DefaultText: "number of CPUs", Flag: "parallelism", Short: "p", Arg: "N",
		Help: "Subtasks of each operator that does not set its own number."},
	{Key: MaxParallelism, Kind: integer(1, 1<<15), DefaultText: "128, more above 85 subtasks",
		Help: "Number of key groups, the upper limit of the parallelism. Fixed by a job's first snapshot."},
	{Key: WatermarkInterval, Kind: duration(1e6), Default: "200 ms",
		Help: "How often sources emit watermarks."},
	{Key: RuntimeMode, Kind: choice(Streaming, Batch, Automatic), Default: Streaming, Flag: "runtime-mode", Arg: "MODE",
		Help: "BATCH, for sources that end: event time stands still until they have, and results come once, at the end. AUTOMATIC is BATCH if all sources end."},
	{Key: BufferTimeout, Kind: duration(1e6), Default: "10 ms", Old: []string{"execution.buffer-timeout"},
		Help: "The longest time a record waits for its batch to fill."},

	{Key: CheckpointInterval, Kind: duration(1e6), DefaultText: "no checkpoints", Flag: "checkpoint-interval", Arg: "DURATION",
		Help: "Time from the start of one checkpoint to the start of the next."},
	{Key: CheckpointDir, Kind: text(), DefaultText: "none", Flag: "checkpoint-dir", Arg: "DIR", Old: []string{"state.checkpoints.dir"},
		Help: "Directory of the snapshots, needed with an interval, or a URL such as s3://bucket/weir if the job has a storage for it. \"memory:\" keeps them in memory, for tests."},
	{Key: SavepointDir, Kind: text(), DefaultText: "none", Old: []string{"state.savepoints.dir"},
		Help: "Directory, or URL, of savepoints for which none is named."},
	{Key: CheckpointMode, Kind: choice(ExactlyOnce, AtLeastOnce), Default: ExactlyOnce,
		Help: "Whether barriers are aligned (EXACTLY_ONCE), or records of a later checkpoint may be counted twice after a failure (AT_LEAST_ONCE)."},
	{Key: CheckpointTimeout, Kind: duration(1e6), Default: "10 min",
		Help: "A checkpoint that takes longer is abandoned and counts as failed."},
	{Key: CheckpointMinPause, Kind: duration(0), Default: "0 ms",
		Help: "The least time from the completion of one checkpoint to the start of the next. Above 0 it needs one checkpoint at a time."},
	{Key: CheckpointConcurrent, Kind: integer(1, math.MaxInt32), Default: "1",
		Help: "How many checkpoints may be under way at once; savepoints may exceed it."},
	{Key: CheckpointTolerable, Kind: tolerable(), Default: "0",
		Help: "How many checkpoints in a row may fail for storage errors or timeouts before the job fails."},
	{Key: CheckpointIncremental, Kind: boolean(), Default: "false", Old: []string{"state.backend.incremental"},
		Help: "Write only what has changed since the checkpoint before where state lies in memory, for 8 bytes of memory per key. Checkpoints of the lsm backend always do so."},
	{Key: CheckpointRetained, Kind: integer(1, math.MaxInt32), Default: "3", Old: []string{"state.checkpoints.num-retained"},
		Help: "Completed checkpoints that are kept."},
	{Key: CheckpointRetention, Kind: choice(RetainAlways, DeleteOnCancel, DeleteAlways, "retain="+RetainAlways, "delete-on-cancel="+DeleteOnCancel, "delete="+DeleteAlways), Default: RetainAlways,
		Help: "What becomes of checkpoints when the job ends: always kept, deleted when it is cancelled, or deleted."},
	{Key: PreferCheckpoint, Kind: boolean(), Default: "false",
		Note: "it has no effect: recovery always uses the newest snapshot of either kind",
		Help: "Has no effect; accepted for old configurations."},
	{Key: RestorePath, Kind: text(), DefaultText: "the job's newest snapshot, if there is one", Flag: "restore", Short: "s", Arg: "PATH", Old: []string{"execution.savepoint.path"},
		Help: "Start from this checkpoint or savepoint (its directory or its _metadata). Used up by the start: the same command again goes on from the newest snapshot."},
	{Key: ClaimMode, Kind: choice(NoClaim, Claim), Default: NoClaim, Flag: "claim-mode", Arg: "MODE", Old: []string{"execution.savepoint-restore-mode"},
		Help: "Whose the snapshot of --restore is from then on: no-claim leaves it to you, and the job's checkpoints soon need none of its files; claim gives it to the job, which deletes it as it does its own checkpoints. Nobody else may start from it then."},
	{Key: AllowNonRestored, Kind: boolean(), Default: "false", Flag: "allow-non-restored-state", Short: "n", Old: []string{"execution.savepoint.ignore-unclaimed-state"},
		Help: "Drop state of the restored snapshot for which the job has no operator, or the operator no state of that name, instead of refusing the start."},

	{Key: StateBackend, Kind: backend(), Default: Heap,
		Flag: "state-backend", Arg: "NAME", Old: []string{"state.backend"},
		Help: "Where keyed state lives: heap (Flink's hashmap) holds it in memory, lsm (for Flink's rocksdb) keeps on local disk what does not fit there."},
	{Key: HeapMemory, Kind: size(), DefaultText: "three quarters of what the process may have", Old: []string{"state.memory.budget"},
		Help: "The most memory that keyed state takes with the heap backend, over all subtasks. Beyond it the job fails with an error that names the largest states, before the system kills the process."},
	{Key: LSMMemory, Kind: size(), DefaultText: "40 % of what the process may have",
		Help: "The memory that the lsm backend takes, over all subtasks."},
	{Key: LSMDir, Kind: text(), DefaultText: "weir-state among the temporary files", Old: []string{"state.backend.rocksdb.localdir"},
		Help: "Local directory of the lsm backend; jobs may share it. What a killed process left there goes with the next start."},

	{Key: RestartType, Kind: choice(RestartNone, "off=none", "disable=none", RestartFixed, "fixeddelay="+RestartFixed, RestartFailureRate, "failurerate="+RestartFailureRate,
		RestartExponential, "exponentialdelay="+RestartExponential),
		DefaultText: "exponential-delay with checkpoints, none without", Old: []string{"restart-strategy"},
		Help: "What to do when the job fails."},
	{Key: Failover, Kind: choice(FailoverRegion, FailoverFull), Default: FailoverRegion,
		Help: "What starts again then: the subtasks that exchange records with the one that failed, or, with full and if there is an exactly-once sink among those, all."},
	{Key: FixedAttempts, Kind: attempts(), Default: "1", Help: "Restarts before the job fails for good."},
	{Key: FixedDelay, Kind: duration(1e6), Default: "1 s", Help: "Time before each restart."},
	{Key: RateMax, Kind: integer(1, math.MaxInt32), Default: "1", Help: "Failures within the interval that are followed by a restart."},
	{Key: RateInterval, Kind: duration(1e6), Default: "1 min", Help: "The interval in which failures are counted."},
	{Key: RateDelay, Kind: duration(1e6), Default: "1 s", Help: "Time before each restart."},
	{Key: BackoffInitial, Kind: duration(1e6), Default: "1 s", Help: "Time before the first restart."},
	{Key: BackoffMax, Kind: duration(1e6), Default: "1 min", Help: "The longest time before a restart."},
	{Key: BackoffMultiplier, Kind: decimal(1, math.Inf(1)), Default: "1.5", Help: "Growth of the time from one restart to the next."},
	{Key: BackoffJitter, Kind: decimal(0, 1), Default: "0.1", Help: "Random share added to or taken from the time, so that jobs do not restart in step."},
	{Key: BackoffReset, Kind: duration(1e6), Default: "10 min", Help: "After running this long without a failure the time is the initial one again."},
	{Key: BackoffAttempts, Kind: attempts(), Default: "infinite", Help: "Restarts before the job fails for good; the count starts anew with the time."},

	{Key: HTTPAddress, Kind: text(), DefaultText: "8081, or a free port if that is taken", Flag: "http", Arg: "ADDR",
		Help: "Serve the REST interface, /healthz, /readyz and /metrics at HOST:PORT. A port alone (\":8081\" or \"8081\") listens on the loopback interface only, 0 is any free port. " +
			"There is no login: who reaches the port may stop the job. \"off\" serves nothing, and the weir command cannot reach the job; runner.Run does not unless it is told to."},
	{Key: LogLevel, Kind: choice("debug", "info", "warn", "warning=warn", "error"), Default: "info", Flag: "log-level", Arg: "LEVEL",
		Help: "The least level that is logged: debug, info, warn or error."},
	{Key: LogFormat, Kind: choice("text", "json"), Default: "text", Flag: "log-format", Arg: "FORMAT",
		Help: "Form of the log on standard error: text or json."},
}

// tolerable is a count where "infinite" or -1 stands for no limit.
func tolerable() Kind {
	k := integer(-1, math.MaxInt32)
	return Kind{Name: k.Name, Allowed: "a whole number, at least 0, or infinite", parse: func(text string) (any, error) {
		if text == "infinite" {
			return -1, nil
		}
		return k.parse(text)
	}}
}

// backend is the choice of a state backend, by Flink's names, too: the short
// ones, and those of classes and their factories, with a package or without.
func backend() Kind {
	k := choice(Heap, LSM,
		"hashmap="+backendHashMap, "HashMapStateBackend="+backendHashMap,
		"filesystem="+backendFilesystem, "FsStateBackend="+backendFilesystem,
		"memory="+backendMemory, "jobmanager="+backendMemory, "MemoryStateBackend="+backendMemory,
		"rocksdb="+backendRocksDB, "RocksDBStateBackend="+backendRocksDB, "EmbeddedRocksDBStateBackend="+backendRocksDB,
		"forst="+backendRocksDB, "ForStStateBackend="+backendRocksDB)
	byName := k.parse
	k.parse = func(text string) (any, error) {
		name := text[strings.LastIndexByte(text, '.')+1:]
		return byName(strings.TrimSuffix(name, "Factory"))
	}
	return k
}

// Options returns the table in the order of documentation.
func Options() []*Option { return options }
