// Structures of this library beside what oneTBB has for the same work: each pair has one name, with
// "/Own" and "/Tbb", so that `structure_bench --benchmark_filter=Own\|Tbb` shows them together.
// What follows from the figures is in doc/performance.md.
#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <oneapi/tbb/concurrent_hash_map.h>
#include <oneapi/tbb/concurrent_queue.h>
#include <oneapi/tbb/enumerable_thread_specific.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/parallel_sort.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dLSM/cache.h"
#include "port/mutex.h"
#include "util/cache/value_cache.h"
#include "util/fabric/ring_queue.h"
#include "util/memory/huge_memory.h"
#include "util/memory/memory_pages.h"
#include "util/random.h"
#include "util/thread_number.h"
#include "util/thread_pool.h"

namespace dlsm {
namespace {

// -------- A counter for each thread, as those of Statistics

void Count(std::atomic<uint64_t>* counter) {
  counter->store(counter->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void OwnCounter(benchmark::State& state) {
  static PerThread<std::atomic<uint64_t>> counters;
  for (auto _ : state) Count(&counters.Local());
}
BENCHMARK(OwnCounter)->Name("ThreadCounter/Own")->ThreadRange(1, 2)->UseRealTime();

void TbbCounter(benchmark::State& state) {
  static tbb::enumerable_thread_specific<std::atomic<uint64_t>> counters;
  for (auto _ : state) Count(&counters.local());
}
BENCHMARK(TbbCounter)->Name("ThreadCounter/Tbb")->ThreadRange(1, 2)->UseRealTime();

// oneTBB's other kind takes a key of the system's for each object, of which a process has 1024.
void TbbKeyCounter(benchmark::State& state) {
  static tbb::enumerable_thread_specific<std::atomic<uint64_t>,
                                         tbb::cache_aligned_allocator<std::atomic<uint64_t>>,
                                         tbb::ets_key_per_instance>
      counters;
  for (auto _ : state) Count(&counters.local());
}
BENCHMARK(TbbKeyCounter)->Name("ThreadCounter/TbbKey")->ThreadRange(1, 2)->UseRealTime();

// -------- A queue: one element in, one out

struct Element {
  uint64_t words[4];
};

void OwnQueue(benchmark::State& state) {
  RingQueue<Element> queue;
  for (auto _ : state) {
    queue.push_back({});
    benchmark::DoNotOptimize(queue.front());
    queue.pop_front();
  }
}
BENCHMARK(OwnQueue)->Name("Queue/Own")->UseRealTime();

void LockedQueue(benchmark::State& state) {
  struct Shared {
    port::Mutex mutex;
    RingQueue<Element> queue GUARDED_BY(mutex);
  };
  static Shared shared;
  for (auto _ : state) {
    {
      const port::MutexLock lock(shared.mutex);
      shared.queue.push_back({});
    }
    const port::MutexLock lock(shared.mutex);
    benchmark::DoNotOptimize(shared.queue.front());
    shared.queue.pop_front();
  }
}
BENCHMARK(LockedQueue)->Name("Queue/OwnWithMutex")->ThreadRange(1, 2)->UseRealTime();

void TbbQueue(benchmark::State& state) {
  static tbb::concurrent_queue<Element> queue;
  Element taken{};
  for (auto _ : state) {
    queue.push({});
    benchmark::DoNotOptimize(queue.try_pop(taken));
  }
}
BENCHMARK(TbbQueue)->Name("Queue/Tbb")->ThreadRange(1, 2)->UseRealTime();

// -------- A cache: a hit among so many entries, all of which have room

constexpr uint64_t kCached = 100000;
constexpr size_t kValueBytes = 400;

// The block cache: counted references, and an order of eviction.
void OwnBlockCache(benchmark::State& state) {
  static const std::unique_ptr<Cache> cache = [] {
    std::unique_ptr<Cache> made(NewLRUCache(2 * kCached * kValueBytes));
    for (uint64_t i = 0; i < kCached; ++i) {
      Cache::Handle* const handle = made->Insert(
          Slice(reinterpret_cast<const char*>(&i), sizeof(i)), new std::string(kValueBytes, 'v'),
          kValueBytes, [](const Slice&, void* value) { delete static_cast<std::string*>(value); });
      made->Release(handle);
    }
    return made;
  }();
  Random random(static_cast<uint64_t>(state.thread_index()) + 1);
  for (auto _ : state) {
    const uint64_t key = random.Uniform(kCached);
    Cache::Handle* const handle =
        cache->Lookup(Slice(reinterpret_cast<const char*>(&key), sizeof(key)));
    benchmark::DoNotOptimize(static_cast<std::string*>(cache->Value(handle))->data()[0]);
    cache->Release(handle);
  }
}
BENCHMARK(OwnBlockCache)->Name("CacheHit/OwnBlockCache")->ThreadRange(1, 2)->UseRealTime();

// The value cache copies what it finds.
void OwnValueCache(benchmark::State& state) {
  static const std::unique_ptr<ValueCache> cache = [] {
    auto made = std::make_unique<ValueCache>(4 * kCached * kValueBytes);
    const std::string value(kValueBytes, 'v');
    const uint64_t table = made->NewTable();
    for (uint64_t i = 0; i < kCached; ++i) made->Insert({table, i * 512, kValueBytes}, value);
    return made;
  }();
  Random random(static_cast<uint64_t>(state.thread_index()) + 1);
  Slice found;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        cache->Lookup({1, random.Uniform(kCached) * 512, kValueBytes}, &found));
  }
}
BENCHMARK(OwnValueCache)->Name("CacheHit/OwnValueCache")->ThreadRange(1, 2)->UseRealTime();

// A map only: what evicts would come on top.
void TbbMap(benchmark::State& state) {
  using Map = tbb::concurrent_hash_map<uint64_t, std::string>;
  static Map* const map = [] {
    auto* const made = new Map(kCached);
    for (uint64_t i = 0; i < kCached; ++i) made->emplace(i, std::string(kValueBytes, 'v'));
    return made;
  }();
  Random random(static_cast<uint64_t>(state.thread_index()) + 1);
  std::string copy;
  for (auto _ : state) {
    Map::const_accessor found;
    if (map->find(found, random.Uniform(kCached))) copy = found->second;
    benchmark::DoNotOptimize(copy.data()[0]);
  }
}
BENCHMARK(TbbMap)->Name("CacheHit/TbbMap")->ThreadRange(1, 2)->UseRealTime();

// -------- Background work: from a wake-up to the work's end, after so many microseconds of nothing

void AwaitAndRest(benchmark::State& state, std::atomic<bool>* done) {
  while (!done->load(std::memory_order_acquire)) std::this_thread::yield();
  state.PauseTiming();
  done->store(false, std::memory_order_relaxed);
  std::this_thread::sleep_for(std::chrono::microseconds(state.range(0)));
  state.ResumeTiming();
}

void OwnWake(benchmark::State& state) {
  ThreadPool pool;
  std::atomic<bool> done{false};
  ThreadPool::Task task(&pool, 1, [&done] {
    done.store(true, std::memory_order_release);
    return ThreadPool::Clock::time_point::max();
  });
  for (auto _ : state) {
    task.Wake();
    AwaitAndRest(state, &done);
  }
}
BENCHMARK(OwnWake)->Name("WakeAThread/Own")->ArgName("rest")->Arg(0)->Arg(1000)->UseRealTime();

void TbbWake(benchmark::State& state) {
  tbb::task_arena arena(2, /*reserved_for_masters=*/1);
  std::atomic<bool> done{false};
  for (auto _ : state) {
    arena.enqueue([&done] { done.store(true, std::memory_order_release); });
    AwaitAndRest(state, &done);
  }
}
BENCHMARK(TbbWake)->Name("WakeAThread/Tbb")->ArgName("rest")->Arg(0)->Arg(1000)->UseRealTime();

// -------- Sorting keys

void SortKeys(benchmark::State& state, bool in_parallel) {
  std::vector<std::string> keys;
  Random random(1);
  for (int64_t i = 0; i < state.range(0); ++i) {
    keys.push_back(fmt::format("{:020}", random.Uniform(uint64_t{1} << 40)));
  }
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<std::string> sorted = keys;
    state.ResumeTiming();
    if (in_parallel) {
      tbb::parallel_sort(sorted.begin(), sorted.end());
    } else {
      std::sort(sorted.begin(), sorted.end());
    }
    benchmark::DoNotOptimize(sorted.data());
  }
}
BENCHMARK_CAPTURE(SortKeys, Own, false)->Arg(100)->Arg(10000)->Arg(1000000)->UseRealTime();
BENCHMARK_CAPTURE(SortKeys, Tbb, true)->Arg(100)->Arg(10000)->Arg(1000000)->UseRealTime();

// -------- Taking the pages of a region

constexpr size_t kRegionBytes = size_t{512} << 20;

void OwnPages(benchmark::State& state) {
  for (auto _ : state) {
    const HugeMemory memory(kRegionBytes);
    benchmark::DoNotOptimize(
        TakePagesInParallel(memory.data(), kRegionBytes, /*huge=*/false, [](size_t) {
          return true;
        }).bytes);
  }
}
BENCHMARK(OwnPages)->Name("TakePages/Own")->UseRealTime()->Unit(benchmark::kMillisecond);

void TbbPages(benchmark::State& state) {
  for (auto _ : state) {
    const HugeMemory memory(kRegionBytes);
    tbb::parallel_for(size_t{0}, kRegionBytes / kTakenAtOnceBytes, [&memory](size_t chunk) {
      benchmark::DoNotOptimize(
          TakePages(memory.data() + chunk * kTakenAtOnceBytes, kTakenAtOnceBytes));
    });
  }
}
BENCHMARK(TbbPages)->Name("TakePages/Tbb")->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dlsm
