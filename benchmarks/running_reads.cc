#include "benchmarks/running_reads.h"

#include <iterator>

namespace dlsm::bench {
namespace {

constexpr const char* kNames[] = {"lookup", "short_scan", "long_scan"};

// Each read returns the number of entries it read; none after a failure, or when cut off.
class Reader {
 public:
  Reader(const KeyChooser& chooser, Worker& worker) : chooser_(chooser), worker_(worker) {}

  bool Lookup(uint64_t* entries) {
    Slice value;
    switch (worker_.session().Get(RandomKey(), &value)) {
      case Outcome::kFound:
        worker_.Found(value);
        *entries = 1;
        return true;
      case Outcome::kMissing:
        worker_.Missed();
        *entries = 0;
        return true;
      case Outcome::kFailed:
        break;
    }
    worker_.Fail(worker_.session().status());
    return false;
  }

  // Up to `most` entries, fewer where the keys end.
  bool Scan(uint64_t most, uint64_t* entries) {
    *entries = 0;
    Cursor& cursor = worker_.session().NewCursor();
    Cursor::Entry entry;
    for (bool valid = cursor.Seek(RandomKey(), &entry); valid; valid = cursor.Next(&entry)) {
      worker_.Read(entry.value);
      if (++*entries == most) return true;
      if (!worker_.MeasuredThreadsRun()) return false;
    }
    if (cursor.status().ok()) return true;
    worker_.Fail(cursor.status());
    return false;
  }

 private:
  Slice RandomKey() { return worker_.keys().Format(chooser_.Choose(worker_.random())); }

  const KeyChooser& chooser_;
  Worker& worker_;
};

}  // namespace

const char* ReadKindName(ReadKind kind) { return kNames[static_cast<size_t>(kind)]; }

bool ParseReadKind(const std::string& name, ReadKind* kind) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name != kNames[i]) continue;
    *kind = static_cast<ReadKind>(i);
    return true;
  }
  return false;
}

void RunReads(ReadKind kind, uint64_t entries, const KeyChooser& chooser, Worker& worker,
              ReadLatencies* latencies) {
  Reader reader(chooser, worker);
  const TickClock& clock = worker.clock();
  uint64_t before = clock.Now();
  while (worker.MeasuredThreadsRun()) {
    uint64_t read = 0;
    if (!(kind == ReadKind::kLookup ? reader.Lookup(&read) : reader.Scan(entries, &read))) break;
    const uint64_t now = clock.Now();
    const double elapsed = static_cast<double>(now - before);
    latencies->ns.Add(static_cast<uint64_t>(clock.ToMicroseconds(elapsed) * 1e3));
    latencies->entries += read;
    before = now;
  }
  worker.session().DropCursor();
}

}  // namespace dlsm::bench
