// Times what this machine allows, whatever a store does: reads of records from random places, round
// trips over loopback TCP and over the simulated network, processors handed from thread to thread,
// copies of memory. What a get, a batch or a scan takes beside these is what the store adds.
//
//   limits_bench [--benchmark_filter=REGEX] [--benchmark_repetitions=N]    Google Benchmark's
//
// Records are of 428 bytes, as db_bench's are with keys of 20 and values of 400. Of N random puts
// into as many keys 63% are left: 1,264,000 records are those of 2 million, 12,640,000 (5.4 GB)
// those of 20 million.
#include <benchmark/benchmark.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "dLSM/status.h"
#include "port/cpu.h"
#include "port/prefetch.h"
#include "port/thread.h"
#include "util/coding.h"
#include "util/deadline.h"
#include "util/fabric/decorators/simulated_fabric.h"
#include "util/fabric/mapped/mapped_fabric.h"
#include "util/fabric/region_table.h"
#include "util/fabric/tls/tcp_socket.h"
#include "util/file_descriptor.h"
#include "util/memory/huge_memory.h"
#include "util/program_version.h"
#include "util/random.h"
#include "util/rpc/auth/socket.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// -------- Memory

constexpr size_t kRecordBytes = 428;
// What ByteTableIndex and a filter of ten bits keep of a key where a lookup looks.
constexpr double kFilterBytesPerKey = 1.25;
constexpr double kIndexBytesPerKey = 2;
constexpr size_t kIndexPieceBytes = 256;

__extension__ using Wide = unsigned __int128;

// `count` pieces of memory on huge pages, all written once.
class Pieces {
 public:
  Pieces(size_t count, size_t piece_bytes)
      : memory_(count * piece_bytes), count_(count), piece_bytes_(piece_bytes) {
    std::memset(memory_.data(), 1, memory_.size());
  }

  // The one that belongs to a random number.
  const char* At(uint64_t random) const {
    return memory_.data() + static_cast<size_t>((Wide{random} * count_) >> 64) * piece_bytes_;
  }

 private:
  const HugeMemory memory_;
  const size_t count_;
  const size_t piece_bytes_;
};

// So that a machine with little memory is not driven into swapping.
bool FitsThisMachine(size_t bytes) {
  const auto pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  return bytes < pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) / 2;
}

// All its lines are asked for at once, as a get does.
uint64_t CopyRecord(const char* record, std::array<char, kRecordBytes>* to) {
  port::PrefetchBytes(record, kRecordBytes);
  std::memcpy(to->data(), record, kRecordBytes);
  benchmark::DoNotOptimize(to->data());
  benchmark::ClobberMemory();
  return DecodeFixed64(to->data());
}

// A record is chosen by the one before, so none begins before that one has come: a single thread's
// gets, of which each is answered before the next.
void RecordFromARandomPlace(benchmark::State& state) {
  const auto records = static_cast<size_t>(state.range(0));
  if (!FitsThisMachine(records * kRecordBytes)) return state.SkipWithError("too little memory");
  const Pieces data(records, kRecordBytes);
  std::array<char, kRecordBytes> copy{};
  uint64_t random = 1;
  while (state.KeepRunning()) random = SplitMix64(random + CopyRecord(data.At(random), &copy));
}
BENCHMARK(RecordFromARandomPlace)->ArgName("records")->Arg(1'264'000)->Arg(12'640'000);

// The same behind a filter's line and a piece of an index, of which both are asked for together:
// the misses of a lookup, without what it computes.
void FilterIndexAndRecord(benchmark::State& state) {
  const auto records = static_cast<size_t>(state.range(0));
  if (!FitsThisMachine(records * kRecordBytes)) return state.SkipWithError("too little memory");
  const auto pieces = [records](double bytes_per_key, size_t piece_bytes) {
    return static_cast<size_t>(static_cast<double>(records) * bytes_per_key) / piece_bytes + 1;
  };
  const Pieces filter(pieces(kFilterBytesPerKey, port::kCacheLineBytes), port::kCacheLineBytes);
  const Pieces index(pieces(kIndexBytesPerKey, kIndexPieceBytes), kIndexPieceBytes);
  const Pieces data(records, kRecordBytes);
  std::array<char, kRecordBytes> copy{};
  uint64_t random = 1;
  while (state.KeepRunning()) {
    const char* const line = filter.At(random);
    const char* const piece = index.At(SplitMix64(random));
    port::PrefetchRead(line);
    port::PrefetchBytes(piece, kIndexPieceBytes);
    random = SplitMix64(random + DecodeFixed64(line) + DecodeFixed64(piece));
    random = SplitMix64(random + CopyRecord(data.At(random), &copy));
  }
}
BENCHMARK(FilterIndexAndRecord)->ArgName("records")->Arg(1'264'000)->Arg(12'640'000);

// Far larger than the processor's caches: the bound of scans.
void CopyMemory(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0)) << 20;
  const Pieces from(1, bytes);
  const HugeMemory to(bytes);
  while (state.KeepRunning()) {
    std::memcpy(to.data(), from.At(0), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
}
BENCHMARK(CopyMemory)->ArgName("megabytes")->Arg(512);

// -------- Loopback

Deadline Soon() { return Deadline::In(std::chrono::seconds(30)); }

// Both ends give up the processor between looks, as the fabric does: at its best, nobody sleeps.
Status MoveAll(int socket, bool send, char* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    iovec part{data + done, bytes - done};
    size_t moved = 0;
    const SocketOutcome outcome =
        send ? SocketSend(socket, &part, 1, &moved) : SocketReceive(socket, &part, 1, &moved);
    if (outcome == SocketOutcome::kEnded) return Status::IOError("the peer has ended");
    if (outcome == SocketOutcome::kFailed) return Status::IOError("the connection failed");
    if (outcome == SocketOutcome::kBlocked) port::Yield();
    done += moved;
  }
  return Status::OK();
}

Status RoundTrip(int socket, std::string* request, std::string* reply) {
  DLSM_RETURN_IF_ERROR(MoveAll(socket, /*send=*/true, request->data(), request->size()));
  return MoveAll(socket, /*send=*/false, reply->data(), reply->size());
}

Status ConnectToOwn(Socket* client, Socket* server) {
  Socket listener;
  uint16_t port = 0;
  DLSM_RETURN_IF_ERROR(ListenSocket("127.0.0.1", 0, &listener, &port));
  ConnectFailure failure{};
  DLSM_RETURN_IF_ERROR(ConnectSocket("127.0.0.1", port, Soon(), client, &failure));
  *server = Socket(::accept(listener.get(), nullptr, nullptr));
  if (!server->valid()) return Status::IOError("nobody has connected");
  PrepareDataSocket(client->get());
  PrepareDataSocket(server->get());
  return Status::OK();
}

// A request of so many bytes and a reply of so many, one at a time, and nothing done with them: the
// messages of a get, and of a MultiGet of 16.
void LoopbackRoundTrip(benchmark::State& state) {
  std::string request(static_cast<size_t>(state.range(0)), 'q');
  std::string reply(static_cast<size_t>(state.range(1)), 'a');
  Socket client;
  Socket server;
  const Status connected = ConnectToOwn(&client, &server);
  if (!connected.ok()) return state.SkipWithError(connected.ToString().c_str());
  port::Thread answering([&server, request_bytes = request.size(), reply]() mutable {
    std::string asked(request_bytes, '\0');
    while (MoveAll(server.get(), /*send=*/false, asked.data(), asked.size()).ok() &&
           MoveAll(server.get(), /*send=*/true, reply.data(), reply.size()).ok()) {
    }
  });
  while (state.KeepRunning()) {
    const Status moved = RoundTrip(client.get(), &request, &reply);
    if (!moved.ok()) state.SkipWithError(moved.ToString().c_str());
  }
  client.Shutdown();
  answering.join();
}
BENCHMARK(LoopbackRoundTrip)
    ->ArgNames({"request", "reply"})
    ->Args({40, 455})
    ->Args({640, 7280})
    ->UseRealTime();

// -------- The simulated network

// A thread posts so many reads of records from random places, with a doorbell for every 16, and
// waits for all: what the simulator does at most for a MultiGet that knows where its records are.
Status ReadTogether(QueuePair* queue_pair, size_t reads, size_t records, uint64_t* random,
                    const RegisteredBuffer& buffer) {
  Ticket last{};
  for (size_t i = 0; i < reads; ++i) {
    *random = SplitMix64(*random);
    const auto record = static_cast<uint64_t>((Wide{*random} * records) >> 64);
    DLSM_RETURN_IF_ERROR(queue_pair->PostRead(
        RemoteSpan{NodeId{}, RegionId{}, record * kRecordBytes, kRecordBytes},
        buffer.span().Sub(i * kRecordBytes, kRecordBytes), Purpose::kRead, &last));
    if ((i + 1) % QueuePair::kReadsWorthRinging == 0) DLSM_RETURN_IF_ERROR(queue_pair->Ring());
  }
  return queue_pair->Wait(last, Deadline::In(std::chrono::seconds(1)));
}

void SimulatedReads(benchmark::State& state) {
  constexpr size_t kRecords = 1'000'000;
  constexpr uint64_t kRoundTripNs = 2000;
  const auto reads = static_cast<size_t>(state.range(0));
  if (!FitsThisMachine(kRecords * kRecordBytes)) return state.SkipWithError("too little memory");
  const HugeMemory memory(kRecords * kRecordBytes);
  std::memset(memory.data(), 1, memory.size());
  RegionTable regions;
  regions.Add(MappedRegion{RegionId{}, memory.data(), memory.size()});
  const auto network = SimulateNetwork(
      SimulatedNetwork{.rtt_ns = kRoundTripNs},
      std::make_unique<MappedConnection>(FabricKind::kLocal, NodeId{}, regions, nullptr));
  std::unique_ptr<QueuePair> queue_pair;
  RegisteredBuffer buffer;
  Status status = network->NewQueuePair(Deadline::In(std::chrono::seconds(1)), &queue_pair);
  if (status.ok()) status = network->NewBuffer(reads * kRecordBytes, &buffer);
  uint64_t random = 1;
  while (status.ok() && state.KeepRunning()) {
    status = ReadTogether(queue_pair.get(), reads, kRecords, &random, buffer);
  }
  if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  state.SetItemsProcessed(state.range(0) * state.iterations());
}
BENCHMARK(SimulatedReads)->ArgName("together")->Arg(1)->Arg(64)->UseRealTime();

// -------- Threads

// Two threads on one processor give it up to each other: what it costs at least that a thread waits
// for something that another one does.
void HandOver(benchmark::State& state) {
  cpu_set_t before;
  if (sched_getaffinity(0, sizeof(before), &before) != 0) {
    return state.SkipWithError("the processors of this thread are not known");
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof(one), &one);  // Also of the thread that it makes.
  std::atomic<bool> done{false};
  port::Thread other([&done] {
    while (!done.load(std::memory_order_relaxed)) port::Yield();
  });
  while (state.KeepRunning()) port::Yield();
  done.store(true, std::memory_order_relaxed);
  other.join();
  sched_setaffinity(0, sizeof(before), &before);
  // There and back again.
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK(HandOver)->UseRealTime();

}  // namespace
}  // namespace dlsm

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
