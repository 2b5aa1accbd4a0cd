package config

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// Flink's name of the backend on disk stands for ours, with a warning.
func TestRocksDBMeansLSM(t *testing.T) {
	for _, name := range []string{"rocksdb", "RocksDB", "forst"} {
		s := New()
		if err := s.ParseFile("f", []byte("state.backend.type: "+name)); err != nil {
			t.Fatal(err)
		}
		s.Resolve()
		want := "file f:1: state backend rocksdb means lsm, which keeps on local disk what does not fit into memory"
		if b := Get[string](s, StateBackend); b != LSM || !slices.Contains(s.Warnings(), want) {
			t.Errorf("%s: backend %q, warnings %q", name, b, s.Warnings())
		}
	}
}

// Every name that Flink has had for a backend stands for one of ours, with a
// warning.
func TestNamesOfBackends(t *testing.T) {
	const heap, memory, lsm = "means heap; snapshots go to execution.checkpointing.dir", "memory means heap with snapshots in memory", "rocksdb means lsm"
	for name, want := range map[string][2]string{
		"hashmap":    {Heap, heap},
		"filesystem": {Heap, heap},
		"memory":     {Heap, memory},
		"jobmanager": {Heap, memory},
		"rocksdb":    {LSM, lsm},
		"org.apache.flink.runtime.state.hashmap.HashMapStateBackend":        {Heap, heap},
		"org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory": {Heap, heap},
		"org.apache.flink.runtime.state.filesystem.FsStateBackendFactory":   {Heap, heap},
		"FsStateBackend": {Heap, heap},
		"org.apache.flink.runtime.state.memory.MemoryStateBackendFactory": {Heap, memory},
		"MemoryStateBackend": {Heap, memory},
		"org.apache.flink.contrib.streaming.state.RocksDBStateBackendFactory":  {LSM, lsm},
		"org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackend": {LSM, lsm},
		"org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackendFactory":    {LSM, lsm},
		"EmbeddedRocksDBStateBackend":                                          {LSM, lsm},
		"org.apache.flink.state.forst.ForStStateBackendFactory":                {LSM, lsm},
	} {
		for _, key := range []string{"state.backend", "state.backend.type"} {
			s := New()
			if err := s.ParseFile("f", []byte(key+": "+name)); err != nil {
				t.Fatal(err)
			}
			s.Resolve()
			warned := slices.ContainsFunc(s.Warnings(), func(w string) bool { return strings.Contains(w, want[1]) })
			if b := Get[string](s, StateBackend); b != want[0] || !warned {
				t.Errorf("%s: %s: backend %q, warnings %q", key, name, b, s.Warnings())
			}
			if dir := Get[string](s, CheckpointDir); (dir == MemoryDir) != (want[1] == memory) {
				t.Errorf("%s: %s: snapshots go to %q", key, name, dir)
			}
		}
	}
	s := New()
	if err := s.ParseFile("f", []byte("state.backend.type: com.example.OwnStateBackend")); err == nil || !strings.Contains(err.Error(), "one of heap, lsm") {
		t.Errorf("an unknown class: %v", err)
	}
}

func TestTableIsConsistent(t *testing.T) {
	names, flags, vars := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, o := range Options() {
		for _, n := range append([]string{o.Key}, o.Old...) {
			if names[n] {
				t.Errorf("name %s is used twice", n)
			}
			names[n] = true
			if other := vars[Env(n)]; other != "" {
				t.Errorf("%s and %s have one variable %s", n, other, Env(n))
			}
			vars[Env(n)] = n
		}
		if o.Help == "" || !strings.HasSuffix(o.Help, ".") {
			t.Errorf("%s: help %q is no sentence", o.Key, o.Help)
		}
		if (o.Default == "") == (o.DefaultText == "") {
			t.Errorf("%s: exactly one of Default and DefaultText must be given", o.Key)
		}
		if o.Default != "" {
			v, err := o.Kind.parse(o.Default)
			if err != nil || format(v) != o.Default {
				t.Errorf("%s: default %q parses as %v, %v", o.Key, o.Default, v, err)
			}
		}
		for _, f := range []string{o.Flag, o.Short} {
			if f != "" && flags[f] {
				t.Errorf("flag %s is used twice", f)
			}
			flags[f] = true
		}
	}
}

func TestDefaults(t *testing.T) {
	s := New()
	s.Resolve()
	if d := Get[time.Duration](s, CheckpointTimeout); d != 10*time.Minute {
		t.Errorf("timeout %v", d)
	}
	if n := Get[int](s, CheckpointRetained); n != 3 {
		t.Errorf("retained %d", n)
	}
	if f := Get[float64](s, BackoffMultiplier); f != 1.5 {
		t.Errorf("multiplier %v", f)
	}
	if n := Get[int](s, BackoffAttempts); n != -1 {
		t.Errorf("attempts %d", n)
	}
	if b := Get[string](s, StateBackend); b != Heap {
		t.Errorf("backend %q", b)
	}
	if s.IsSet(CheckpointInterval) || Get[string](s, RestartType) != RestartNone {
		t.Errorf("without an interval: %+v", s.Value(RestartType))
	}
	if v := s.Value(Parallelism); v.Shown() != "(number of CPUs)" || v.Origin.String() != "default" {
		t.Errorf("parallelism shows as %s from %s", v.Shown(), v.Origin)
	}
}

func TestLayersOverrideInOrder(t *testing.T) {
	s := New()
	steps := []struct {
		apply  func() error
		text   string
		origin string
	}{
		{func() error {
			return s.ParseFile("w.yaml", []byte("execution:\n  checkpointing:\n    interval: 10 s\n"))
		}, "10 s", "file w.yaml:3"},
		{func() error { return s.Environ([]string{"WEIR_EXECUTION_CHECKPOINTING_INTERVAL=2min", "HOME=/x"}) }, "2 min", "environment WEIR_EXECUTION_CHECKPOINTING_INTERVAL"},
		{func() error { return s.Apply(Code, []Entry{{Key: CheckpointInterval, Text: "1m30s"}}) }, "90 s", "code"},
		{func() error {
			return s.Apply(Flag, []Entry{{Key: CheckpointInterval, Text: "250", Where: "--checkpoint-interval"}})
		}, "250 ms", "flag --checkpoint-interval"},
	}
	for _, step := range steps {
		if err := step.apply(); err != nil {
			t.Fatal(err)
		}
		if v := s.Value(CheckpointInterval); v.Text != step.text || v.Origin.String() != step.origin {
			t.Errorf("got %q from %s, want %q from %s", v.Text, v.Origin, step.text, step.origin)
		}
	}
	s.Resolve()
	if v := s.Value(RestartType); v.Text != RestartExponential || v.Origin.Layer != Default {
		t.Errorf("restart strategy with checkpoints: %+v", v)
	}
	if len(s.Warnings()) != 0 {
		t.Errorf("warnings %q", s.Warnings())
	}
}

func TestFileForms(t *testing.T) {
	forms := map[string]string{
		"flat":   "execution.checkpointing.interval: 5 s\nrestart-strategy.type: fixed-delay\nrestart-strategy.fixed-delay.attempts: 3\n",
		"nested": "execution:\n  checkpointing:\n    interval: 5 s\nrestart-strategy:\n  type: fixed-delay\n  fixed-delay:\n    attempts: 3\n",
		"mixed":  "---\n# comment\nexecution.checkpointing: {interval: \"5 s\"}\nrestart-strategy:\n  type: FIXED_DELAY # folded\n  fixed-delay.attempts: '3'\n",
		"old":    "execution.checkpointing.interval: 5000\nrestart-strategy: fixed-delay\nrestart-strategy.fixed-delay.attempts: 3\n",
	}
	for name, text := range forms {
		s := New()
		if err := s.ParseFile("f", []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if Get[time.Duration](s, CheckpointInterval) != 5*time.Second || Get[string](s, RestartType) != RestartFixed || Get[int](s, FixedAttempts) != 3 {
			t.Errorf("%s: %+v", name, s.Values())
		}
	}
	for _, empty := range []string{"", "\n", "# only a comment\n", "---\n"} {
		if err := New().ParseFile("f", []byte(empty)); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestFileErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"misspelt", "parallelism.default: 2\nexecution.checkpointing.intervall: 1 s\n",
			`file f:2: unknown key "execution.checkpointing.intervall": did you mean "execution.checkpointing.interval"?`},
		{"swapped", "pipeline.max-paralellism: 2", `did you mean "pipeline.max-parallelism"?`},
		{"shortened", "checkpointing:\n  interval: 1 s\n", `file f:2: unknown key "checkpointing.interval": did you mean "execution.checkpointing.interval"?`},
		{"foreign", "taskmanager.numberOfTaskSlots: 2", `unknown key "taskmanager.numberOfTaskSlots"; "help options" lists all keys`},
		{"duration", "\nexecution.checkpointing.timeout: soon", `file f:2: execution.checkpointing.timeout = "soon": allowed is a duration such as 500 ms`},
		{"negative", "execution.checkpointing.min-pause: -1 s", `= "-1 s": allowed is`},
		{"zero interval", "execution.checkpointing.interval: 0", `at least 1 ms`},
		{"integer", "parallelism.default: 2.5", `parallelism.default = "2.5": allowed is a whole number from 1 to 32768`},
		{"range", "parallelism.default: 0", `parallelism.default = "0"`},
		{"jitter", "restart-strategy.exponential-delay.jitter-factor: 1.5", `a number from 0 to 1`},
		{"nan", "restart-strategy.exponential-delay.backoff-multiplier: nan", `a number, at least 1`},
		{"mode", "execution.checkpointing.mode: ALMOST_ONCE", `one of EXACTLY_ONCE, AT_LEAST_ONCE`},
		{"boolean", "execution.checkpointing.prefer-checkpoint-for-recovery: 1", `allowed is true or false`},
		{"size", "state.memory.budget: plenty", `a size such as 512 mb`},
		{"backend", "state.backend.type: tape", `state.backend.type = "tape": allowed is one of heap, lsm`},
		{"no value", "parallelism.default:", `file f:1: "parallelism.default" has no value`},
		{"list", "parallelism.default: [1, 2]", `file f:1: "parallelism.default": a list is not allowed`},
		{"twice", "parallelism.default: 1\nparallelism:\n  default: 2", `file f:3: "parallelism.default" is set twice, first in line 1`},
		{"twice alike", "parallelism.default: 1\nparallelism.default: 2", `is set twice`},
		{"not a mapping", "hello", `is not of the form key: value`},
		{"alias", "parallelism.default: &a 2\npipeline.max-parallelism: *a", "anchors, aliases and tags"},
		{"two documents", "parallelism.default: 1\n---\nparallelism.default: 2", "second YAML document"},
		{"syntax", "parallelism.default: 1\n  : [", "f: is no valid YAML: line "},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := New().ParseFile("f", []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
	err := New().ParseFile("f", []byte("a: 1\nparallelism.default: x\nb: 2"))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 3 {
		t.Errorf("not every problem is reported: %v", err)
	}
}

func TestOldNames(t *testing.T) {
	text := `state.backend: filesystem
state.checkpoints.dir: /old
state.checkpoints.num-retained: 7
state.savepoints.dir: /sp
execution.savepoint.path: /from
execution.checkpointing.prefer-checkpoint-for-recovery: true
`
	s := New()
	if err := s.ParseFile("f", []byte(text)); err != nil {
		t.Fatal(err)
	}
	s.Resolve()
	for key, want := range map[string]string{StateBackend: "heap", CheckpointDir: "/old", CheckpointRetained: "7", SavepointDir: "/sp", RestorePath: "/from"} {
		if v := s.Value(key); v.Text != want || v.Origin.Layer != File {
			t.Errorf("%s = %q from %s, want %q", key, v.Text, v.Origin, want)
		}
	}
	want := []string{
		"file f:1: state.backend is the old name of state.backend.type; use that",
		"file f:2: state.checkpoints.dir is the old name of execution.checkpointing.dir; use that",
		"file f:3: state.checkpoints.num-retained is the old name of execution.checkpointing.num-retained; use that",
		"file f:4: state.savepoints.dir is the old name of execution.checkpointing.savepoint-dir; use that",
		"file f:5: execution.savepoint.path is the old name of execution.state-recovery.path; use that",
		"file f:6: execution.checkpointing.prefer-checkpoint-for-recovery: it has no effect: recovery always uses the newest snapshot of either kind",
		"file f:1: state backend filesystem means heap; snapshots go to execution.checkpointing.dir",
	}
	if got := s.Warnings(); !slices.Equal(got, want) {
		t.Errorf("warnings:\n%s", strings.Join(got, "\n"))
	}
}

// Within one layer the current name wins, wherever it stands; over layers the
// later layer wins, whatever the name.
func TestOldAgainstCurrentName(t *testing.T) {
	for _, text := range []string{"state.checkpoints.dir: /old\nexecution.checkpointing.dir: /new", "execution.checkpointing.dir: /new\nstate.checkpoints.dir: /old"} {
		s := New()
		if err := s.ParseFile("f", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := Get[string](s, CheckpointDir); got != "/new" {
			t.Errorf("%q gives %s", text, got)
		}
		if err := s.Environ([]string{"WEIR_STATE_CHECKPOINTS_DIR=/env"}); err != nil {
			t.Fatal(err)
		}
		if got := Get[string](s, CheckpointDir); got != "/env" {
			t.Errorf("old name in a later layer: %s", got)
		}
	}
}

func TestMemoryBackend(t *testing.T) {
	for _, text := range []string{"state.backend: memory", "state.backend.type: jobmanager"} {
		s := New()
		if err := s.ParseFile("f", []byte(text)); err != nil {
			t.Fatal(err)
		}
		s.Resolve()
		if b, d := s.Value(StateBackend), s.Value(CheckpointDir); b.Text != Heap || d.Text != MemoryDir || d.Origin.String() != "file f:1" {
			t.Errorf("%s: backend %+v, dir %+v", text, b, d)
		}
	}
	s := New()
	if err := s.ParseFile("f", []byte("state.backend: memory\nexecution.checkpointing.dir: /ck")); err != nil {
		t.Fatal(err)
	}
	s.Resolve()
	if d := Get[string](s, CheckpointDir); d != "/ck" {
		t.Errorf("a directory that is set was replaced by %s", d)
	}
}

func TestEnvironment(t *testing.T) {
	s := New()
	err := s.Environ([]string{"WEIR_PARALLELISM_DEFAULT=4", "WEIR_SERVICE_HOST=10.0.0.1", "WEIR_LOG_LEVEL=", "PARALLELISM_DEFAULT=9"})
	if err != nil || Get[int](s, Parallelism) != 4 || Get[string](s, LogLevel) != "info" {
		t.Errorf("%v, parallelism %d", err, Get[int](s, Parallelism))
	}
	if w := s.Warnings(); len(w) != 1 || w[0] != "environment: variable WEIR_SERVICE_HOST is no option and is ignored" {
		t.Errorf("warnings %q", w)
	}
	err = New().Environ([]string{"WEIR_EXECUTION_CHECKPOINTING_INTERVALL=1s", "WEIR_PARALLELISM_DEFAULT=many"})
	for _, want := range []string{
		"unknown variable WEIR_EXECUTION_CHECKPOINTING_INTERVALL: did you mean WEIR_EXECUTION_CHECKPOINTING_INTERVAL?",
		`environment WEIR_PARALLELISM_DEFAULT: parallelism.default = "many"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1500": 1500 * time.Millisecond, "10 s": 10 * time.Second, "500ms": 500 * time.Millisecond, " 1 min ": time.Minute,
		"1m": time.Minute, "2 hours": 2 * time.Hour, "3d": 72 * time.Hour, "7 µs": 7 * time.Microsecond, "9 nanos": 9,
		"1m30s": 90 * time.Second, "1.5s": 1500 * time.Millisecond, "5 MS": 5 * time.Millisecond,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "s", "1 month", "-1 s", "1 s 2", "9223372036854775807 s", "99999999999999999999", "1e3", "0x10"} {
		if got, err := ParseDuration(bad); err == nil {
			t.Errorf("%q = %v", bad, got)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "42": 42, "64 mb": 64 << 20, "4g": 4 << 30, "1 KiB": 1024, "2tb": 2 << 40} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "mb", "-1", "1.5 gb", "1 eb", "9999999999 gb"} {
		if got, err := ParseSize(bad); err == nil {
			t.Errorf("%q = %v", bad, got)
		}
	}
}

func TestFormatParsesBack(t *testing.T) {
	for _, d := range []time.Duration{0, 1, time.Microsecond, time.Millisecond, 1500 * time.Millisecond, 90 * time.Second, time.Hour, 25 * time.Hour, math.MaxInt64} {
		if got, err := ParseDuration(formatDuration(d)); err != nil || got != d {
			t.Errorf("%v formats as %q and parses as %v, %v", d, formatDuration(d), got, err)
		}
	}
	for _, n := range []int64{0, 1, 1023, 1024, 1536, 64 << 20, 3 << 40, math.MaxInt64} {
		if got, err := ParseSize(formatSize(n)); err != nil || got != n {
			t.Errorf("%d formats as %q and parses as %v, %v", n, formatSize(n), got, err)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"10 s", "500ms", "1 min", "1m30s", "9223372036854775807 d", "١ s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 {
			t.Fatalf("%q is negative: %v", text, d)
		}
		if again, err := ParseDuration(formatDuration(d)); err != nil || again != d {
			t.Fatalf("%q = %v, but %q = %v, %v", text, d, formatDuration(d), again, err)
		}
	})
}

func FuzzParseFile(f *testing.F) {
	for _, s := range []string{"", "a: 1", "execution:\n  checkpointing:\n    interval: 10 s\n", "a: [1, {b: c}]", "? x\n: y", "a: |\n  text\n", "a: &x 1\nb: *x", "<<: {a: 1}", "---\n...\n---\na: !!str 1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New()
		if err := s.ParseFile("f", data); err != nil {
			return
		}
		for _, v := range s.Values() {
			if v.Text == "" {
				continue
			}
			if again, err := v.Kind.parse(v.Text); err != nil || format(again) != v.Text {
				t.Fatalf("%s = %q is not canonical: %v, %v", v.Key, v.Text, again, err)
			}
		}
	})
}
