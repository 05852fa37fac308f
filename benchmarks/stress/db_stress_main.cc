// db_stress: random operations from the whole public API, by many threads, with faults, reopenings
// and crashes, against a model of what each key may hold. One seed repeats a run of one thread
// exactly.
//
// Exit codes: 0 nothing wrong, 1 the database has done wrong, 2 wrong arguments, 3 it could not
// run.
#include <fmt/core.h>
#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "benchmarks/changed_flags.h"
#include "benchmarks/flag_checks.h"
#include "benchmarks/stress/process_to_kill.h"
#include "benchmarks/stress/random_options.h"
#include "benchmarks/stress/server_processes.h"
#include "benchmarks/stress/shared_memory.h"
#include "benchmarks/stress/stress_nodes.h"
#include "benchmarks/stress/stress_run.h"
#include "dLSM/db.h"
#include "util/file_descriptor.h"
#include "util/known_flags.h"
#include "util/program_version.h"
#include "util/random.h"
#include "util/status_macros.h"

DEFINE_uint64(seed, 0, "what everything is drawn from; 0: a new one, which is printed");
DEFINE_int32(seconds, 60, "how long to go on");
DEFINE_int32(rounds, 0,
             "so many rounds of one database instead of --seconds; with --crash_seconds any number "
             "means: one database");
DEFINE_int32(database_seconds, 10, "how long to use one database, before the next is drawn");
DEFINE_int32(threads, 4, "threads that use the database; at most one for 8 keys");
DEFINE_uint64(operations, 2000, "operations of each thread in a round");
DEFINE_uint64(keys, 4000, "number of keys");
DEFINE_uint64(value_size_max, 2000, "bytes of the largest values");
DEFINE_string(
    fabric, "",
    "embedded, shm, tcp or verbs; empty: one of the first three, drawn for each database");
DEFINE_int32(nodes, 3, "memory nodes at most, where they are not embedded");
DEFINE_double(faults, 0.002,
              "share of transfers and calls that fail, in every other round; 0: none");
DEFINE_uint64(operation_timeout_ms, 0,
              "Options::operation_timeout_ms; more where the machine is overloaded, with memory "
              "nodes and clients on the same processors; 0: 2000 with faults, 10000 without");
DEFINE_double(node_losses, 0.25,
              "share of databases on several memory nodes that lose one of them at the end; none "
              "with --faults=0 or --crash_seconds");
DEFINE_int32(crash_seconds, 0,
             "kill the process that uses the database after so long, on average, and go on with "
             "another; 0: never");
DEFINE_string(data_dir, "",
              "with --crash_seconds: an empty directory for the memory nodes' files. An embedded "
              "memory node is killed with its process then");
DEFINE_string(
    server, "",
    "with --data_dir: the program Server. Memory nodes are processes of it, and are killed "
    "too, with the application or alone");
DEFINE_uint64(large_value, uint64_t{1} << 20, "bytes of a large value; one of 3001 is; 0: none");
DEFINE_uint64(huge_value, uint64_t{64} << 20,
              "bytes of the one value that is larger than all others; 0: none");
DEFINE_bool(delays, true,
            "hold threads up for a moment where their order matters, in every other database");
DEFINE_bool(verbose, false, "print the options of every opening");
DEFINE_int32(state_descriptor, -1, "for the process that is to be killed: of the expected state");
DEFINE_string(memory_nodes, "", "for the process that is to be killed");
DEFINE_string(embedded_dir, "", "for the process that is to be killed");
DEFINE_bool(nodes_die, false, "for the process that is to be killed");
DEFINE_uint64(processes_before, 0, "for the process that is to be killed: how many before it were");

namespace dlsm::stress {
namespace {

using Clock = std::chrono::steady_clock;

using bench::CheckChoice;
using bench::CheckRange;
using bench::FirstError;
using bench::Wrong;

// Who is silent for so long has gone. Where the machine is overloaded a thread may sleep for
// seconds; where no process is killed, nobody waits for the end of a lease.
std::chrono::milliseconds Lease() {
  return std::max(std::chrono::milliseconds(FLAGS_crash_seconds > 0 ? 3000 : 20'000),
                  std::chrono::milliseconds(FLAGS_operation_timeout_ms));
}

// Who has lost its connection, and has not come back, has gone.
std::chrono::milliseconds Grace() {
  return std::chrono::milliseconds(FLAGS_crash_seconds > 0 ? 300 : 5000);
}

constexpr int kExitWrong = 1;
constexpr int kExitUsage = 2;
constexpr int kExitFailed = 3;

struct Totals {
  RunResult sum;
  uint64_t databases = 0;
  uint64_t crashes = 0;
  uint64_t server_crashes = 0;

  void Add(const RunResult& result) {
    sum.tally.Add(result.tally);
    sum.rounds += result.rounds;
    sum.reopenings += result.reopenings;
    sum.take_overs += result.take_overs;
    sum.losses += result.losses;
    sum.shards_that_survived += result.shards_that_survived;
    sum.faults += result.faults;
    sum.torn_by_crash += result.torn_by_crash;
    sum.publications_followed += result.publications_followed;
    sum.leases_ended += result.leases_ended;
  }

  void Print() const {
    std::printf("%llu states read by followers, %llu leases ended meanwhile\n",
                static_cast<unsigned long long>(sum.publications_followed),
                static_cast<unsigned long long>(sum.leases_ended));
    uint64_t operations = 0;
    for (const uint64_t count : sum.tally.operations) operations += count;
    std::printf(
        "%llu databases, %llu rounds, %llu reopenings, %llu take-overs, %llu crashes, %llu of "
        "Servers, %llu memory nodes lost, %llu shards read in spite of it\n",
        static_cast<unsigned long long>(databases), static_cast<unsigned long long>(sum.rounds),
        static_cast<unsigned long long>(sum.reopenings),
        static_cast<unsigned long long>(sum.take_overs), static_cast<unsigned long long>(crashes),
        static_cast<unsigned long long>(server_crashes),
        static_cast<unsigned long long>(sum.losses),
        static_cast<unsigned long long>(sum.shards_that_survived));
    std::printf(
        "%llu operations, %llu observations checked, %llu faults, %llu errors due to them\n",
        static_cast<unsigned long long>(operations),
        static_cast<unsigned long long>(sum.tally.observations),
        static_cast<unsigned long long>(sum.faults),
        static_cast<unsigned long long>(sum.tally.tolerated));
    for (size_t i = 0; i < kOperationCount; ++i) {
      std::printf("%s%s %llu", i == 0 ? "" : ", ", OperationName(static_cast<Operation>(i)),
                  static_cast<unsigned long long>(sum.tally.operations[i]));
    }
    std::printf("\n");
  }
};

// The expected state, and behind it what killed processes have done.
size_t SharedBytes() { return ExpectedState::BytesFor(FLAGS_keys) + sizeof(SharedTally) + 64; }
SharedTally* TallyIn(const SharedMemory& memory) {
  const size_t offset = (ExpectedState::BytesFor(FLAGS_keys) + 63) / 64 * 64;
  return reinterpret_cast<SharedTally*>(static_cast<char*>(memory.data()) + offset);
}

KeySpace KeysOf(uint64_t seed) {
  KeySpace space(seed, FLAGS_keys, FLAGS_value_size_max);
  space.AddLargeValues(FLAGS_large_value, FLAGS_huge_value);
  constexpr uint64_t kOrderSalt = 0x6f72646572;
  if (Random(seed ^ kOrderSalt).OneIn(4)) space.Descend();
  return space;
}

RunConfig ConfigOf(uint64_t seed) {
  RunConfig config;
  config.seed = seed;
  config.threads = static_cast<uint64_t>(FLAGS_threads);
  config.operations_per_round = FLAGS_operations;
  config.rounds = static_cast<uint64_t>(FLAGS_rounds);
  config.fault_rate = FLAGS_faults;
  config.delays = FLAGS_delays && seed % 2 == 1;
  config.verbose = FLAGS_verbose;
  config.operation_timeout_ms = FLAGS_operation_timeout_ms;
  return config;
}

void PrintFailure(const std::string& options, const Status& status) {
  std::printf("FAILED: %s\n  options: %s\n", status.ToString().c_str(), options.c_str());
}

void PrintAgain(uint64_t seed) {
  // Where processes are killed, what ends a database is time, and any --rounds means: this one.
  const int rounds = FLAGS_crash_seconds > 0 ? 1 : FLAGS_rounds > 0 ? FLAGS_rounds : 100;
  std::printf("  again, as far as threads allow: db_stress --seed=%llu --rounds=%d%s\n",
              static_cast<unsigned long long>(seed), rounds,
              ChangedFlags({"seed", "rounds", "seconds"}).c_str());
}

// What the seed draws for one database besides its options.
struct Setting {
  std::string fabric;
  int nodes = 0;  // 0: embedded.
  std::optional<size_t> lost_node;

  static Setting Draw(uint64_t seed) {
    Random random(~seed);
    Setting setting;
    const char* const fabrics[] = {"embedded", "shm", "tcp"};
    setting.fabric = FLAGS_fabric.empty() ? fabrics[random.Uniform(3)] : FLAGS_fabric;
    // A killed process takes an embedded memory node along, but for what that has in a directory.
    if (FLAGS_crash_seconds > 0 && FLAGS_data_dir.empty() && setting.fabric == "embedded")
      setting.fabric = "tcp";
    if (setting.fabric != "embedded") {
      setting.nodes = 1 + static_cast<int>(random.Uniform(static_cast<uint64_t>(FLAGS_nodes)));
    }
    const bool loses = static_cast<double>(random.Uniform(1000)) < FLAGS_node_losses * 1000;
    if (loses && setting.nodes > 1 && FLAGS_faults > 0) {
      setting.lost_node = random.Uniform(static_cast<uint64_t>(setting.nodes));
    }
    return setting;
  }
};

Status CheckLeftovers(const Nodes& nodes, StressRun* run) {
  DLSM_RETURN_IF_ERROR(nodes.CheckInvariants());
  DLSM_RETURN_IF_ERROR(run->Destroy());
  DLSM_RETURN_IF_ERROR(nodes.CheckInvariants());
  // What a killed follower may have read is kept until its lease has ended.
  const auto until = Clock::now() + 3 * Lease();
  while (nodes.used_bytes() > 0 && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (nodes.used_bytes() == 0) return Status::OK();
  return Status::Corruption(
      fmt::format("{} bytes are left on the memory nodes by a database that was destroyed",
                  nodes.used_bytes()));
}

// A database from its making to its end, in this process.
Status UseOneDatabase(uint64_t seed, const Setting& setting, Nodes* nodes, SharedMemory* memory,
                      RunResult* result) {
  const KeySpace space = KeysOf(seed);
  memory->Clear();
  ExpectedState state(memory->data(), FLAGS_keys);
  RunConfig config = ConfigOf(seed);
  config.memory_nodes = nodes->addresses();
  config.fabric = setting.fabric == "embedded" ? "" : setting.fabric;
  config.until = Clock::now() + std::chrono::seconds(FLAGS_database_seconds);
  config.database = fmt::format("stress-{}", seed);
  if (setting.lost_node.has_value()) {
    config.nodes = static_cast<size_t>(setting.nodes);
    config.lost_node = *setting.lost_node;
    config.lose_node = [nodes, lost = *setting.lost_node](bool dies) {
      if (!dies) return nodes->Restart(lost);
      nodes->Kill(lost);
      return Status::OK();
    };
  }
  StressRun run(config, &space, &state);
  const Status status = run.Run(result);
  result->options =
      fmt::format("fabric={} nodes={} {}", setting.fabric, setting.nodes, result->options);
  DLSM_RETURN_IF_ERROR(status);
  return CheckLeftovers(*nodes, &run);
}

// The process that is to be killed.
int RunChild() {
  std::unique_ptr<SharedMemory> memory;
  Status status = SharedMemory::Open(FLAGS_state_descriptor, SharedBytes(), &memory);
  if (!status.ok()) {
    std::fprintf(stderr, "db_stress: %s\n", status.ToString().c_str());
    return kExitFailed;
  }
  const KeySpace space = KeysOf(FLAGS_seed);
  ExpectedState state(memory->data(), FLAGS_keys);
  RunConfig config = ConfigOf(FLAGS_seed);
  config.memory_nodes = FLAGS_memory_nodes;
  config.fabric = FLAGS_fabric == "embedded" ? "" : FLAGS_fabric;
  config.embedded_dir = FLAGS_embedded_dir;
  config.nodes_die = FLAGS_nodes_die;
  config.has_files = FLAGS_nodes_die || !FLAGS_embedded_dir.empty();
  // A Server that was started again remembers sessions for longer than a killed process is waited
  // for.
  config.take_over = FLAGS_nodes_die && FLAGS_processes_before % 4 != 0;
  config.until = Clock::now() + std::chrono::hours(1);
  config.processes_before = FLAGS_processes_before;
  config.tally = TallyIn(*memory);
  RunResult result;
  StressRun run(config, &space, &state);
  status = run.Run(&result);
  if (status.ok()) return 0;
  PrintFailure(result.options, status);
  return kExitWrong;
}

// Where the database of a run with crashes is.
struct Place {
  const Nodes* nodes = nullptr;
  ServerProcesses* servers = nullptr;  // Null if the memory nodes are this process's, or embedded.
  std::string embedded_dir;

  std::string addresses() const {
    return servers != nullptr ? servers->addresses() : nodes->addresses();
  }
};

// A process that uses the database for a while; what it has not flushed when it is killed may be
// gone.
ProcessToKill UserOf(const std::string& name, const Place& place, const Setting& setting,
                     uint64_t seed, uint64_t processes_before, const SharedMemory& memory,
                     Random* random) {
  ProcessToKill process;
  process.program = "/proc/self/exe";
  process.arguments = {name,
                       fmt::format("--seed={}", seed),
                       fmt::format("--keys={}", FLAGS_keys),
                       fmt::format("--value_size_max={}", FLAGS_value_size_max),
                       fmt::format("--threads={}", FLAGS_threads),
                       fmt::format("--operations={}", FLAGS_operations),
                       fmt::format("--faults={}", FLAGS_faults),
                       fmt::format("--large_value={}", FLAGS_large_value),
                       fmt::format("--huge_value={}", FLAGS_huge_value),
                       fmt::format("--delays={}", FLAGS_delays),
                       fmt::format("--operation_timeout_ms={}", FLAGS_operation_timeout_ms),
                       fmt::format("--verbose={}", FLAGS_verbose),
                       fmt::format("--fabric={}", setting.fabric),
                       fmt::format("--memory_nodes={}", place.addresses()),
                       fmt::format("--embedded_dir={}", place.embedded_dir),
                       fmt::format("--nodes_die={}", place.servers != nullptr),
                       fmt::format("--state_descriptor={}", memory.descriptor()),
                       fmt::format("--processes_before={}", processes_before)};
  const auto mean = std::chrono::milliseconds(1000 * int64_t{FLAGS_crash_seconds});
  process.life = mean / 4 + mean * random->Uniform(1000) * 3 / 2000;
  // Twice as long as it may take to open the database.
  process.patience = 2 * ConfigOf(seed).lease_patience();
  // One of four may be opening, closing or verifying it. Of the others it is seen that they do not
  // hang. A process whose memory nodes die knows that only while it operates.
  if (place.servers != nullptr || !random->OneIn(4)) {
    process.progress = [tally = TallyIn(memory)] { return tally->steps.load(); };
  }
  return process;
}

// Kills a Server, or all of them, and starts them again. The application goes on meanwhile, and
// must be seen to, if it `lives`.
Status CrashServers(ServerProcesses* servers, bool lives, const SharedMemory& memory,
                    std::chrono::milliseconds patience, Random* random, Totals* totals) {
  std::vector<size_t> killed;
  for (size_t i = 0; i < servers->count(); ++i) {
    if (killed.empty() || random->OneIn(2)) killed.push_back(i);
  }
  for (const size_t number : killed) {
    servers->Kill(number);
    ++totals->server_crashes;
  }
  if (!lives) return Status::OK();
  std::this_thread::sleep_for(std::chrono::milliseconds(random->Uniform(1000)));
  for (const size_t number : killed) DLSM_RETURN_IF_ERROR(servers->Restart(number));
  const auto until = Clock::now() + patience;
  const uint64_t before = TallyIn(memory)->succeeded.load();
  while (TallyIn(memory)->succeeded.load() < before + 10) {
    if (Clock::now() > until) {
      return Status::Corruption("no operation succeeds after a Server was started again");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return Status::OK();
}

// What the process's death may take.
bool KeepsAcknowledged(uint64_t seed, const Setting& setting) {
  // With faults, or over tcp, frames are sent a moment later.
  if (FLAGS_faults > 0 || setting.fabric == "tcp") return false;
  return StressRun::LogOf(ConfigOf(seed), KeysOf(seed)) != LogLevel::kNone;
}

Status CheckNothingLeft(const Place& place, StressRun* run) {
  if (place.servers == nullptr) {
    return place.embedded_dir.empty() ? CheckLeftovers(*place.nodes, run) : run->Destroy();
  }
  DLSM_RETURN_IF_ERROR(run->Destroy());
  constexpr auto kPatience = std::chrono::seconds(60);
  const auto until = Clock::now() + kPatience;
  uint64_t bytes = 0;
  do {
    DLSM_RETURN_IF_ERROR(place.servers->UsedBytes(&bytes));
    if (bytes == 0) return Status::OK();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (Clock::now() < until);
  return Status::Corruption(
      fmt::format("{} bytes are left on the memory nodes by a database that was destroyed", bytes));
}

// A database that several processes use, one after the other; each but the last is killed.
Status CrashOneDatabase(const std::string& program, uint64_t seed, const Setting& setting,
                        const Place& place, SharedMemory* memory, Totals* totals,
                        RunResult* result) {
  memory->Clear();
  ExpectedState state(memory->data(), FLAGS_keys);
  Random random(seed);
  const auto until = Clock::now() + std::chrono::seconds(FLAGS_database_seconds);
  uint64_t killed = 0;
  while (Clock::now() < until) {
    ProcessToKill user = UserOf(program, place, setting, seed, killed, *memory, &random);
    const bool with_servers = place.servers != nullptr && random.OneIn(2);
    if (place.servers != nullptr) {
      user.before = [&] {
        for (uint64_t times = random.Uniform(3); times > 0; --times) {
          DLSM_RETURN_IF_ERROR(
              CrashServers(place.servers, /*lives=*/true, *memory, user.patience, &random, totals));
        }
        if (!with_servers) return Status::OK();
        return CrashServers(place.servers, /*lives=*/false, *memory, user.patience, &random,
                            totals);
      };
    }
    DLSM_RETURN_IF_ERROR(StartAndKill(user));
    if (with_servers) DLSM_RETURN_IF_ERROR(place.servers->RestartAll());
    ++totals->crashes;
    if (!KeepsAcknowledged(seed, setting)) state.ForgetUndurable();
    ++killed;
  }
  totals->sum.tally.Add(TallyIn(*memory)->Sum());
  totals->sum.rounds += TallyIn(*memory)->rounds;
  const KeySpace space = KeysOf(seed);
  RunConfig config = ConfigOf(seed);
  config.memory_nodes = place.addresses();
  config.fabric = setting.fabric == "embedded" ? "" : setting.fabric;
  config.embedded_dir = place.embedded_dir;
  config.has_files = place.servers != nullptr || !place.embedded_dir.empty();
  config.rounds = 1;
  config.processes_before = killed;
  StressRun run(config, &space, &state);
  DLSM_RETURN_IF_ERROR(run.Run(result));
  return CheckNothingLeft(place, &run);
}

// The same, with memory nodes that have files.
Status CrashWithFiles(const std::string& program, uint64_t seed, const Setting& setting,
                      SharedMemory* memory, Totals* totals, RunResult* result) {
  const std::string directory = fmt::format("{}/{}", FLAGS_data_dir, seed);
  std::error_code error;
  std::filesystem::create_directory(directory, error);
  const Nodes none;
  ServerProcesses servers;
  Place place;
  place.nodes = &none;
  if (setting.fabric == "embedded") {
    place.embedded_dir = directory + "/embedded";
  } else {
    DLSM_RETURN_IF_ERROR(servers.Start(FLAGS_server, setting.nodes, setting.fabric, directory));
    place.servers = &servers;
  }
  DLSM_RETURN_IF_ERROR(CrashOneDatabase(program, seed, setting, place, memory, totals, result));
  // Of one that has failed the files stay.
  for (size_t i = 0; i < servers.count(); ++i) servers.Kill(i);
  std::filesystem::remove_all(directory, error);
  return Status::OK();
}

Status CheckFlags() {
  // What stands before and behind the letters of a value.
  constexpr uint64_t kHeadBytesMax = 64;
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  const uint64_t writers_max = std::min<uint64_t>(1024, KeySpace::WritersMax(FLAGS_keys));
  size_t fabric = 0;
  if (!FLAGS_data_dir.empty() && (FLAGS_crash_seconds == 0 || FLAGS_server.empty())) {
    return Wrong("data_dir", FLAGS_data_dir, "only with --crash_seconds and --server");
  }
  if (!FLAGS_server.empty() && FLAGS_data_dir.empty()) {
    return Wrong("server", FLAGS_server, "only with --data_dir");
  }
  return FirstError({
      CheckRange<uint64_t>("keys", FLAGS_keys, 64, uint64_t{1} << 28),
      FLAGS_keys % KeySpace::kGroupKeys == 0 ? Status::OK()
                                             : Wrong("keys", FLAGS_keys, "a multiple of 4"),
      FLAGS_threads >= 1 && static_cast<uint64_t>(FLAGS_threads) <= writers_max
          ? Status::OK()
          : Wrong("threads", FLAGS_threads,
                  fmt::format("1 to {}: with --keys={} more would have no keys of their own",
                              writers_max, FLAGS_keys)),
      CheckRange<int32_t>("seconds", FLAGS_seconds, 0, kMost),
      CheckRange<int32_t>("rounds", FLAGS_rounds, 0, kMost),
      CheckRange<int32_t>("database_seconds", FLAGS_database_seconds, 1, kMost),
      CheckRange<int32_t>("crash_seconds", FLAGS_crash_seconds, 0, 1'000'000),
      CheckRange<int32_t>("nodes", FLAGS_nodes, 1, 64),
      CheckRange<uint64_t>("operations", FLAGS_operations, 1, uint64_t{1} << 40),
      CheckRange<double>("faults", FLAGS_faults, 0, 0.5),
      CheckRange<double>("node_losses", FLAGS_node_losses, 0, 1),
      CheckRange<uint64_t>("operation_timeout_ms", FLAGS_operation_timeout_ms, 0, 3'600'000),
      FLAGS_fabric.empty()
          ? Status::OK()
          : CheckChoice("fabric", FLAGS_fabric, {"embedded", "shm", "tcp", "verbs"}, &fabric),
      CheckRange<uint64_t>("huge_value", FLAGS_huge_value, 0, kValueBytesMax),
      CheckRange<uint64_t>("value_size_max", FLAGS_value_size_max, 0,
                           kValueBytesMax - kHeadBytesMax),
      CheckRange<uint64_t>("large_value", FLAGS_large_value, 0,
                           kValueBytesMax - kHeadBytesMax - FLAGS_value_size_max),
  });
}

int CouldNotRun(const Status& status) {
  std::fprintf(stderr, "db_stress: %s\n", status.ToString().c_str());
  return kExitFailed;
}

int Main(const std::string& program) {
  if (const Status flags = CheckFlags(); !flags.ok()) {
    std::fprintf(stderr, "db_stress: %s; see --help\n", flags.ToString().c_str());
    return kExitUsage;
  }
  if (FLAGS_state_descriptor >= 0) return RunChild();
  std::unique_ptr<SharedMemory> memory;
  const Status mapped = SharedMemory::Open(-1, SharedBytes(), &memory);
  if (!mapped.ok()) return CouldNotRun(mapped);
  uint64_t seed = FLAGS_seed != 0 ? FLAGS_seed : std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  const auto until = Clock::now() + std::chrono::seconds(FLAGS_seconds);
  Totals totals;
  do {
    const Setting setting = Setting::Draw(seed);
    const bool with_files = !FLAGS_data_dir.empty();
    Nodes nodes;
    const Status started =
        nodes.Start(with_files ? 0 : setting.nodes, setting.fabric, {Lease(), Grace()});
    if (!started.ok()) {
      totals.Print();
      return CouldNotRun(started);
    }
    RunResult result;
    const Status status =
        with_files ? CrashWithFiles(program, seed, setting, memory.get(), &totals, &result)
        : FLAGS_crash_seconds > 0
            ? CrashOneDatabase(program, seed, setting, Place{&nodes, nullptr, ""}, memory.get(),
                               &totals, &result)
            : UseOneDatabase(seed, setting, &nodes, memory.get(), &result);
    totals.Add(result);
    ++totals.databases;
    if (!status.ok()) {
      totals.Print();
      PrintFailure(result.options, status);
      PrintAgain(seed);
      return kExitWrong;
    }
    ++seed;
  } while (FLAGS_rounds == 0 && Clock::now() < until);
  totals.Print();
  return 0;
}

}  // namespace
}  // namespace dlsm::stress

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  gflags::SetUsageMessage("random operations, faults and crashes against a model");
  if (const dlsm::Status known = dlsm::CheckFlagsAreKnown(argc, argv); !known.ok()) {
    std::fprintf(stderr, "db_stress: %s\n", known.ToString().c_str());
    return dlsm::stress::kExitUsage;
  }
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (argc > 1) {
    std::fprintf(stderr, "db_stress: '%s' is no flag; see --help\n", argv[1]);
    return 2;
  }
  return dlsm::stress::Main(argv[0]);
}
