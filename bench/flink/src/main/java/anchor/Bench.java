package anchor;

import java.time.Duration;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.configuration.*;
import org.apache.flink.connector.datagen.source.*;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.*;
import org.apache.flink.util.Collector;

/**
 * Whole-job rates of Flink in one JVM on synthetic events; bench/README.md describes each job.
 * Environment: DIST=hot (90 % of the records on 1 % of the keys; default uniform), MANAGED=2gb (RocksDB's memory).
 */
public class Bench {
  public static class Event { public long key; public long ts; public long val; public Event() {} public Event(long k, long t, long v){key=k;ts=t;val=v;} }

  static volatile long steadyFrom, filledAt;
  static long mix(long z){ z=(z^(z>>>30))*0xbf58476d1ce4e5b9L; z=(z^(z>>>27))*0x94d049bb133111ebL; return z^(z>>>31); }

  public static void main(String[] a) throws Exception {
    String job = a[0]; long n = Long.parseLong(a[1]); long keys = Long.parseLong(a[2]); int par = Integer.parseInt(a[3]);
    String backend = a.length>4 ? a[4] : "hashmap"; long ckpt = a.length>5 ? Long.parseLong(a[5]) : 0;
    Configuration c = new Configuration();
    c.setString("state.backend.type", backend);
    c.setString("pipeline.object-reuse", "true");
    c.setString("taskmanager.numberOfTaskSlots", ""+par);
    c.setString("taskmanager.memory.network.max", "256mb");
    c.setString("taskmanager.memory.managed.size", System.getenv().getOrDefault("MANAGED", "2gb"));
    c.setString("execution.checkpointing.dir", "file://"+System.getProperty("java.io.tmpdir")+"/flink-anchor-ckpt");
    if (backend.equals("rocksdb")) c.setString("execution.checkpointing.incremental", "true");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(par, c);
    if (ckpt>0) env.enableCheckpointing(ckpt);
    final boolean hot = "hot".equals(System.getenv("DIST")), wide = "100".equals(System.getenv("VALUE"));
    // With FILL=1 each key is written once before the n records, and the rate is theirs.
    final long K = keys, P = par, filled = "1".equals(System.getenv("FILL")) ? keys / par : 0, per = filled + n / par, third = filled + (per - filled) / 3, all = per * par;
    // The source cuts 0..n into one range per subtask; event time runs side by side in all of them.
    GeneratorFunction<Long, Event> gen = i -> {
      if (i == third) steadyFrom = System.nanoTime();
      if (i == filled - 1) filledAt = System.nanoTime();
      if (i % per < filled) return new Event((i / per * filled + i % per) * 2654435761L % K, i % per * P / 1000, i & 1023);
      long h = mix(i), k = hot && (h & 1023) < 922 ? Long.remainderUnsigned(h >>> 10, Math.max(1, K / 100)) : Long.remainderUnsigned(h, K);
      return new Event(k, (i % per) * P / 1000, i & 1023);
    };
    DataGeneratorSource<Event> src = new DataGeneratorSource<>(gen, all, TypeInformation.of(Event.class));
    WatermarkStrategy<Event> wm = (job.equals("tumbling")||job.equals("sliding")||job.equals("timers"))
      ? WatermarkStrategy.<Event>forBoundedOutOfOrderness(Duration.ofMillis(100)).withTimestampAssigner((e,t)->e.ts)
      : WatermarkStrategy.noWatermarks();
    SingleOutputStreamOperator<Event> s = env.fromSource(src, wm, "src");
    switch (job) {
      case "source": s.sinkTo(new DiscardingSink<>()); break;
      case "chain": s.map(e -> { e.val = e.val*31+7; return e; }).returns(Event.class).filter(e -> (e.val & 7) != 0).map(e -> { e.val ^= e.key; return e; }).returns(Event.class).sinkTo(new DiscardingSink<>()); break;
      case "keyed": s.keyBy(e -> e.key).process(wide ? new WideCount() : new Count()).sinkTo(new DiscardingSink<>()); break;
      case "keyed-string": s.keyBy(Bench::uuid).process(new CountByString()).sinkTo(new DiscardingSink<>()); break;
      case "dedupe": s.keyBy(Bench::uuid).process(new Dedupe()).sinkTo(new DiscardingSink<>()); break;
      case "mapstate": s.keyBy(e -> e.key).process(new MapCount()).sinkTo(new DiscardingSink<>()); break;
      case "timers": s.keyBy(e -> e.key).process(new Quiet()).sinkTo(new DiscardingSink<>()); break;
      case "tumbling": s.keyBy(e -> e.key).window(TumblingEventTimeWindows.of(Duration.ofSeconds(10))).aggregate(new Sum()).sinkTo(new DiscardingSink<>()); break;
      case "sliding": s.keyBy(e -> e.key).window(SlidingEventTimeWindows.of(Duration.ofSeconds(60), Duration.ofSeconds(1))).aggregate(new Sum()).sinkTo(new DiscardingSink<>()); break;
      default: throw new IllegalArgumentException(job);
    }
    long t0 = System.nanoTime();
    JobExecutionResult r = env.execute(job);
    long end = System.nanoTime(); double wall = (end-t0)/1e9, run = r.getNetRuntime()/1e3, steady = (2.0*n/3)/((end-steadyFrom)/1e9);
    String fill = filled == 0 ? "" : String.format(" fill=%.0f/s", filled*par/((filledAt-t0)/1e9));
    double cpu = ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime()/1e3/all;
    System.out.printf("%s backend=%s par=%d n=%d keys=%d ckpt=%d wall=%.2fs run=%.2fs whole=%.0f/s cpu=%.2fus/rec%s rate=%.0f/s%n", job, backend, par, n, keys, ckpt, wall, run, all/run, cpu, fill, steady);
    System.exit(0);
  }

  static class Count extends KeyedProcessFunction<Long, Event, Long> {
    transient ValueState<Long> count;
    @Override public void open(OpenContext ctx) { count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG)); }
    @Override public void processElement(Event e, Context ctx, Collector<Long> out) throws Exception { Long v = count.value(); long x = v==null?1:v+1; count.update(x); if ((x & 1023) == 0) out.collect(x); }
  }
  /** Counts in the first bytes of a value of 100 bytes, the rest of which cannot be compressed. */
  static class WideCount extends KeyedProcessFunction<Long, Event, Long> {
    transient ValueState<byte[]> count;
    @Override public void open(OpenContext ctx) { count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)); }
    @Override public void processElement(Event e, Context ctx, Collector<Long> out) throws Exception {
      byte[] v = count.value();
      if (v == null) { v = new byte[100]; for (int i = 8; i < 96; i += 8) LONGS.set(v, i, mix(e.key ^ i)); }
      long x = (long) LONGS.get(v, 0) + 1; LONGS.set(v, 0, x); v[8 + (int) (x % 92)] = (byte) e.val;
      count.update(v); if ((x & 1023) == 0) out.collect(x);
    }
    static final java.lang.invoke.VarHandle LONGS = java.lang.invoke.MethodHandles.byteArrayViewVarHandle(long[].class, java.nio.ByteOrder.LITTLE_ENDIAN);
  }
  /** A 36-character id for each key, as request ids look. */
  static String uuid(Event e) { return new java.util.UUID(mix(e.key), mix(~e.key)).toString(); }
  static class CountByString extends KeyedProcessFunction<String, Event, Long> {
    transient ValueState<Long> count;
    @Override public void open(OpenContext ctx) { count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG)); }
    @Override public void processElement(Event e, Context ctx, Collector<Long> out) throws Exception { Long v = count.value(); long x = v==null?1:v+1; count.update(x); if ((x & 1023) == 0) out.collect(x); }
  }
  /** First record of each id passes; ids are forgotten an hour after they were written. */
  static class Dedupe extends KeyedProcessFunction<String, Event, Event> {
    transient ValueState<Boolean> seen;
    @Override public void open(OpenContext ctx) { ValueStateDescriptor<Boolean> d = new ValueStateDescriptor<>("seen", Types.BOOLEAN); d.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofHours(1)).build()); seen = getRuntimeContext().getState(d); }
    @Override public void processElement(Event e, Context ctx, Collector<Event> out) throws Exception { if (seen.value() == null) { seen.update(true); out.collect(e); } }
  }
  /** Counts per key and val mod 16. */
  static class MapCount extends KeyedProcessFunction<Long, Event, Long> {
    transient MapState<Long, Long> m;
    @Override public void open(OpenContext ctx) { m = getRuntimeContext().getMapState(new MapStateDescriptor<>("m", Types.LONG, Types.LONG)); }
    @Override public void processElement(Event e, Context ctx, Collector<Long> out) throws Exception { long f = e.val & 15; Long v = m.get(f); long x = v==null?1:v+1; m.put(f, x); if ((x & 1023) == 0) out.collect(x); }
  }
  /** Reports a key that was quiet for 5 s of event time: every record deletes one timer and registers another. */
  static class Quiet extends KeyedProcessFunction<Long, Event, Long> {
    transient ValueState<Long> due;
    @Override public void open(OpenContext ctx) { due = getRuntimeContext().getState(new ValueStateDescriptor<>("due", Types.LONG)); }
    @Override public void processElement(Event e, Context ctx, Collector<Long> out) throws Exception { Long d = due.value(); if (d != null) ctx.timerService().deleteEventTimeTimer(d); long n = e.ts + 5000; due.update(n); ctx.timerService().registerEventTimeTimer(n); }
    @Override public void onTimer(long t, OnTimerContext ctx, Collector<Long> out) throws Exception { due.clear(); out.collect(ctx.getCurrentKey()); }
  }
  static class Sum2 implements AggregateFunction<KafkaBench.Event, Long, Long> {
    public Long createAccumulator(){return 0L;} public Long add(KafkaBench.Event e, Long acc){return acc+e.val;} public Long getResult(Long acc){return acc;} public Long merge(Long x, Long y){return x+y;}
  }
  static class Sum implements AggregateFunction<Event, Long, Long> {
    public Long createAccumulator(){return 0L;} public Long add(Event e, Long acc){return acc+e.val;} public Long getResult(Long acc){return acc;} public Long merge(Long x, Long y){return x+y;}
  }
}
