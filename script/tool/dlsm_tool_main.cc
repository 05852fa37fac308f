// dlsm_tool: moves real data into and out of a database from the command line.
#include <fmt/core.h>
#include <fmt/format.h>
#include <gflags/gflags.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "script/tool/backup.h"
#include "script/tool/directory_check.h"
#include "script/tool/doctor.h"
#include "script/tool/merge_schedule.h"
#include "script/tool/node_use.h"
#include "script/tool/quota.h"
#include "script/tool/split_points.h"
#include "script/tool/tool.h"
#include "util/config_flag.h"
#include "util/escape.h"
#include "util/fabric/fabric.h"
#include "util/file_descriptor.h"
#include "util/known_flags.h"
#include "util/program_version.h"
#include "util/secret_file.h"
#include "util/status_macros.h"

DEFINE_string(db, "default", "name of the database");
DEFINE_string(config, "",
              "path of a connection.conf that names the memory nodes; empty, with "
              "--compute_node_id and without --memory_nodes: that of the working directory, or of "
              "the one above it");
DEFINE_string(memory_nodes, "", "memory nodes as host[:port], separated by commas");
DEFINE_string(data_dir, "",
              "the directory of a memory node that does not run: of Server --data_dir, or "
              "Options::embedded_dir");
DEFINE_uint32(compute_node_id, 0, "which of the config's compute nodes this is");
DEFINE_string(fabric, "", "local, shm, tcp or verbs; empty: what fits the memory nodes");
DEFINE_string(rdma_device, "",
              "for verbs, and for doctor: device, port, network interface or address, then "
              "settings; empty: the first active port");
DEFINE_string(secret_file, "", "file with the secret of the cluster");
DEFINE_string(access_name, "", "name of this client in the memory nodes' access files");
DEFINE_bool(tls, false, "TLS to the memory nodes, known by the secret");
DEFINE_string(tls_ca_file, "", "PEM: TLS to memory nodes, known by certificates that lead there");
DEFINE_string(tls_certificate_file, "", "PEM: what this client shows by TLS");
DEFINE_string(tls_key_file, "", "PEM: its key");
DEFINE_string(format, "tsv", "of entries on standard input and output: tsv or binary");
DEFINE_bool(
    sorted, false,
    "load: the entries are in the order of keys, each key once; they become tables at once");
DEFINE_string(key, "", "get, put, delete: the key, escaped as in tsv");
DEFINE_string(value, "", "put: the value, escaped as in tsv");
DEFINE_string(from, "", "scan: the first key, escaped as in tsv");
DEFINE_string(to, "", "scan: the key to stop before, escaped as in tsv");
DEFINE_string(merge_scheduler, "",
              "schedule: single, fair, greedy or spring_and_gear; empty: as it is");
DEFINE_int64(merge_bandwidth_mb, -1,
             "schedule: megabytes of input a second for all merges; 0: no limit; -1: as it is");
DEFINE_uint32(shards, 1,
              "of a database that is made; split-points: how many to find boundaries for");
DEFINE_string(shard_boundaries_file, "",
              "of a database that is made: a file with a key a line, as split-points writes them");
DEFINE_string(compute_boundaries_file, "",
              "of a database that compute nodes share: a file with the first key of each range but "
              "the first, a line each, escaped as in tsv; --compute_node_id says which is meant");
DEFINE_string(compaction_style, "guards",
              "as the application that the database belongs to sets it: guards, leveled, "
              "leveled_choose_best, full_leveling, tiered or size_tiered");
DEFINE_int32(num_levels, 7, "as the application that the database belongs to sets it");
DEFINE_string(quota, "",
              "quota: bytes that --db may have at each memory node, or none; empty: as it is");
DEFINE_bool(overwrite, false, "restore: into a database that is not empty, whose entries go");
DEFINE_bool(compress, true, "backup: with Snappy");
DEFINE_bool(read_only, false, "open the database for reading only: nothing of it changes");
DEFINE_uint64(limit, 0, "scan: how many entries at most; 0: all");

namespace dlsm::tool {

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

constexpr const char* kUsageText =
    "dlsm_tool [flags] VERB[,VERB...]\n"
    "\n"
    "  load     writes the entries on standard input into the database, made if it is missing;\n"
    "           with --sorted, entries in the order of keys become tables at once\n"
    "  dump     writes all entries to standard output, in key order\n"
    "  scan     the same for --from, --to and --limit\n"
    "  get      writes the value of --key\n"
    "  put      sets --key to --value; the database is made if it is missing\n"
    "  delete   deletes --key\n"
    "  verify   reads everything back: order, checksums, and what this command has written\n"
    "  stats    writes what is known of the database: fabric, levels, memory, wire, counters\n"
    "  compact  merges all tables down\n"
    "  destroy  deletes the database\n"
    "  accept-loss\n"
    "           opens a database whose log is damaged, says what of it is lost, and goes on "
    "without that\n"
    "  split-points\n"
    "           writes the keys that divide the data into --shards parts of the same size\n"
    "  backup DB_NAME FILE\n"
    "           (by itself) copies the database into one file; one that another process has open "
    "as\n"
    "           that has published it last\n"
    "  restore FILE DB_NAME\n"
    "           (by itself) writes such a file into an empty database, made if it is missing, or "
    "with\n"
    "           --overwrite into any\n"
    "  check-backup FILE\n"
    "           (by itself) reads all of such a file, and says what it holds\n"
    "  check    (by itself) reads all that is in --data_dir, and says what is damaged\n"
    "  doctor   (by itself) checks this host, and the memory nodes if any are named: limits, huge\n"
    "           pages, RDMA devices, control port, version, secret, speed of each fabric\n"
    "  schedule (by itself) shows how the memory nodes schedule the merges of all their "
    "databases,\n"
    "           or sets it with --merge_scheduler and --merge_bandwidth_mb until they end\n"
    "  quota    (by itself) shows what databases, or --db alone, have at memory nodes and may "
    "have;\n"
    "           or sets with --quota what --db may have, until they end\n"
    "  nodes    (by itself) shows what the memory nodes hold and have spent\n"
    "\n"
    "With --data_dir the databases are those of that directory, which no other process has open.\n"
    "With none of --memory_nodes, --config and --data_dir the database lives in this process and "
    "ends with "
    "it,\n"
    "so verbs are chained: dlsm_tool load,verify,dump < entries.tsv";

// The flag's value as bytes; none if it was not given. Empty and absent are different keys.
Status BytesOfFlag(const char* name, std::optional<std::string>* bytes) {
  const gflags::CommandLineFlagInfo info = gflags::GetCommandLineFlagInfoOrDie(name);
  if (info.is_default) return Status::OK();
  std::string unescaped;
  const Status status = Unescape(info.current_value, &unescaped);
  if (!status.ok()) {
    return Status::InvalidArgument(fmt::format("--{}", name), status.message());
  }
  *bytes = std::move(unescaped);
  return Status::OK();
}

// Whoever opens a database merges it in a style of his own, while he reads, too. What that leaves
// another style may refuse to open.
Status ShapeFromFlags(Options* database) {
  // In the order of the enum.
  constexpr std::array<std::string_view, 6> kStyles = {
      "leveled", "guards", "leveled_choose_best", "full_leveling", "tiered", "size_tiered"};
  const auto style = std::ranges::find(kStyles, FLAGS_compaction_style);
  if (style == kStyles.end()) {
    return Status::InvalidArgument(fmt::format("--compaction_style={}: there are {}",
                                               FLAGS_compaction_style, fmt::join(kStyles, ", ")));
  }
  database->compaction_style = static_cast<CompactionStyle>(style - kStyles.begin());
  database->num_levels = FLAGS_num_levels;
  return Status::OK();
}

// *keys stay as they are if the flag was not given.
Status KeysFromFile(const char* flag, const std::string& path, std::vector<std::string>* keys) {
  if (path.empty()) return Status::OK();
  std::ifstream file(path);
  if (!file) {
    return Status::InvalidArgument(fmt::format("--{}: cannot read {}", flag, path),
                                   "name a file with a key a line, as split-points writes them");
  }
  const Status read = ReadSplitPoints(&file, keys);
  if (read.ok()) return read;
  return Status::InvalidArgument(fmt::format("--{}={}", flag, path), read.message());
}

// Where the verbs ask for split points, --shards is how many; else that of a new database.
Status ShardsFromFlags(const std::vector<Verb>& verbs, ToolOptions* options) {
  constexpr uint32_t kShardsMax = 256;
  if (FLAGS_shards < 1 || FLAGS_shards > kShardsMax) {
    return Status::InvalidArgument(
        fmt::format("--shards={}: from 1 to {}", FLAGS_shards, kShardsMax));
  }
  options->shards = FLAGS_shards;
  if (std::find(verbs.begin(), verbs.end(), Verb::kSplitPoints) == verbs.end()) {
    options->database.shards = static_cast<int>(FLAGS_shards);
  }
  return KeysFromFile("shard_boundaries_file", FLAGS_shard_boundaries_file,
                      &options->database.shard_boundaries);
}

// A directory has its memory node in this process.
Status CheckDataDirFlag() {
  if (FLAGS_data_dir.empty()) return Status::OK();
  for (const auto& [flag, given] : {std::pair("memory_nodes", !FLAGS_memory_nodes.empty()),
                                    std::pair("config", !FLAGS_config.empty())}) {
    if (!given) continue;
    return Status::InvalidArgument(fmt::format("both --data_dir and --{} are given", flag),
                                   "give only one of them");
  }
  return Status::OK();
}

Status OptionsFromFlags(ToolOptions* options) {
  DLSM_RETURN_IF_ERROR(CheckDataDirFlag());
  options->name = FLAGS_db;
  options->database.embedded_dir = FLAGS_data_dir;
  options->database.config = FLAGS_config;
  options->database.memory_nodes = FLAGS_memory_nodes;
  options->database.compute_node_id = FLAGS_compute_node_id;
  options->database.fabric = FLAGS_fabric;
  options->database.rdma_device = FLAGS_rdma_device;
  options->database.secret_file = FLAGS_secret_file;
  options->database.access_name = FLAGS_access_name;
  options->database.tls = FLAGS_tls;
  options->database.tls_ca_file = FLAGS_tls_ca_file;
  options->database.tls_certificate_file = FLAGS_tls_certificate_file;
  options->database.tls_key_file = FLAGS_tls_key_file;
  DLSM_RETURN_IF_ERROR(ShapeFromFlags(&options->database));
  DLSM_RETURN_IF_ERROR(KeysFromFile("compute_boundaries_file", FLAGS_compute_boundaries_file,
                                    &options->database.compute_boundaries));
  options->limit = FLAGS_limit;
  options->sorted = FLAGS_sorted;
  options->read_only = FLAGS_read_only;
  if (!EntryFormatFromName(FLAGS_format, &options->format)) {
    return Status::InvalidArgument(
        fmt::format("--format={}: there are tsv and binary", FLAGS_format));
  }
  DLSM_RETURN_IF_ERROR(BytesOfFlag("key", &options->key));
  DLSM_RETURN_IF_ERROR(BytesOfFlag("value", &options->value));
  DLSM_RETURN_IF_ERROR(BytesOfFlag("from", &options->from));
  return BytesOfFlag("to", &options->to);
}

Status ParseCommand(int argc, char** argv, std::vector<Verb>* verbs, ToolOptions* options) {
  if (argc != 2) {
    return Status::InvalidArgument(
        argc < 2 ? "no verb given; dlsm_tool --help lists them"
                 : fmt::format("'{}': verbs are separated by commas, without blanks", argv[2]));
  }
  DLSM_RETURN_IF_ERROR(ParseVerbs(argv[1], verbs));
  DLSM_RETURN_IF_ERROR(OptionsFromFlags(options));
  DLSM_RETURN_IF_ERROR(ShardsFromFlags(*verbs, options));
  return CheckVerbs(*verbs, *options);
}

Status NodesFromFlags(std::vector<HostPort>* memory_nodes, Credentials* credentials) {
  if (!FLAGS_data_dir.empty()) {
    return Status::InvalidArgument("this verb is about memory nodes that run, not about --data_dir",
                                   "name them with --memory_nodes or --config");
  }
  if (!FLAGS_memory_nodes.empty() && !FLAGS_config.empty()) {
    return Status::InvalidArgument("both --memory_nodes and --config are given",
                                   "give only one of them");
  }
  if (!FLAGS_secret_file.empty()) {
    DLSM_RETURN_IF_ERROR(ReadSecretFile(FLAGS_secret_file, &credentials->secret));
  }
  credentials->access_name = FLAGS_access_name;
  TlsConfig tls;
  tls.enabled = FLAGS_tls;
  tls.ca_file = FLAGS_tls_ca_file;
  tls.certificate_file = FLAGS_tls_certificate_file;
  tls.key_file = FLAGS_tls_key_file;
  DLSM_RETURN_IF_ERROR(UseTls(tls, credentials));
  if (!FLAGS_memory_nodes.empty()) return ParseHostPorts(FLAGS_memory_nodes, memory_nodes);
  if (FLAGS_config.empty()) return Status::OK();
  ClusterConfig config;
  DLSM_RETURN_IF_ERROR(ReadClusterConfig(FLAGS_config, &config));
  *memory_nodes = config.memory_nodes;
  return Status::OK();
}

Status DoctorOptionsFromFlags(DoctorOptions* options) {
  options->fabric = FLAGS_fabric;
  options->rdma_device = FLAGS_rdma_device;
  if (!FLAGS_fabric.empty() && !FabricKindFromName(FLAGS_fabric).has_value()) {
    return Status::InvalidArgument(
        fmt::format("--fabric={}: there are local, shm, tcp and verbs", FLAGS_fabric));
  }
  return NodesFromFlags(&options->memory_nodes, &options->credentials);
}

Status ScheduleOptionsFromFlags(MergeScheduleOptions* options) {
  constexpr int64_t kMegabytesMax = int64_t{1} << 20;
  if (FLAGS_merge_bandwidth_mb < -1 || FLAGS_merge_bandwidth_mb > kMegabytesMax) {
    return Status::InvalidArgument(fmt::format("--merge_bandwidth_mb={}: from 0 to {}, or -1",
                                               FLAGS_merge_bandwidth_mb, kMegabytesMax));
  }
  options->schedule = FLAGS_merge_scheduler;
  if (FLAGS_merge_bandwidth_mb >= 0) {
    options->bytes_per_second = static_cast<uint64_t>(FLAGS_merge_bandwidth_mb) << 20;
  }
  return NodesFromFlags(&options->memory_nodes, &options->credentials);
}

int CheckMain() {
  Status status = CheckDataDirFlag();
  if (status.ok() && FLAGS_data_dir.empty()) {
    status = Status::InvalidArgument("check needs --data_dir=DIRECTORY");
  }
  bool good = false;
  if (status.ok()) status = CheckDirectory(FLAGS_data_dir, &std::cout, &good);
  if (status.ok()) return good ? 0 : kFailed;
  std::cerr << "dlsm_tool: " << status.ToString() << "\n";
  return status.IsInvalidArgument() ? kUsage : kFailed;
}

int DoctorMain() {
  DoctorOptions options;
  const Status status = DoctorOptionsFromFlags(&options);
  if (!status.ok()) {
    std::cerr << "dlsm_tool: " << status.ToString() << "\n";
    return kUsage;
  }
  const Findings findings = RunDoctor(options);
  PrintFindings(findings, &std::cout);
  return AnyBad(findings) ? kFailed : 0;
}

int ScheduleMain() {
  MergeScheduleOptions options;
  Status status = ScheduleOptionsFromFlags(&options);
  if (status.ok()) status = ShowMergeSchedules(options, &std::cout);
  if (status.ok()) return 0;
  std::cerr << "dlsm_tool: " << status.ToString() << "\n";
  return status.IsInvalidArgument() ? kUsage : kFailed;
}

int QuotaMain() {
  QuotaOptions options;
  if (!gflags::GetCommandLineFlagInfoOrDie("db").is_default) options.database = FLAGS_db;
  Status status;
  if (!FLAGS_quota.empty()) {
    uint64_t bytes = 0;
    status = ParseQuota(FLAGS_quota, &bytes);
    options.bytes = bytes;
  }
  if (status.ok()) status = NodesFromFlags(&options.memory_nodes, &options.credentials);
  if (status.ok()) status = ShowQuotas(options, &std::cout);
  if (status.ok()) return 0;
  std::cerr << "dlsm_tool: " << status.ToString() << "\n";
  return status.IsInvalidArgument() ? kUsage : kFailed;
}

int NodesMain() {
  NodeUseOptions options;
  Status status = NodesFromFlags(&options.memory_nodes, &options.credentials);
  if (status.ok()) status = ShowNodeUse(options, &std::cout);
  if (status.ok()) return 0;
  std::cerr << "dlsm_tool: " << status.ToString() << "\n";
  return status.IsInvalidArgument() ? kUsage : kFailed;
}

// `first` and `second` are the verb's arguments.
int BackupMain(const std::string& verb, const std::string& first, const std::string& second) {
  ToolOptions options;
  BackupCommand command;
  Status status = OptionsFromFlags(&options);
  if (status.ok()) status = ShardsFromFlags({}, &options);
  if (status.ok()) {
    command.database = options.database;
    command.name = verb == "backup" ? first : second;
    command.file = verb == "backup" ? second : first;
    command.compress = FLAGS_compress;
    command.overwrite = FLAGS_overwrite;
    status = verb == "backup" ? BackUp(command, &std::cout) : Restore(command, &std::cout);
  }
  if (status.ok()) return 0;
  std::cerr << "dlsm_tool: " << status.ToString() << "\n";
  return status.IsInvalidArgument() ? kUsage : kFailed;
}

int CheckBackupMain(const std::string& file) {
  const Status status = CheckBackupFile(file, &std::cout);
  if (status.ok()) return 0;
  std::cerr << "dlsm_tool: " << status.ToString() << "\n";
  return kFailed;
}

int BackupUsage(const std::string& verb) {
  std::cerr << "dlsm_tool: " << verb << " has other arguments: backup DB_NAME FILE, "
            << "restore FILE DB_NAME, check-backup FILE\n";
  return kUsage;
}

int Main(int argc, char** argv) {
  gflags::SetUsageMessage(kUsageText);
  if (const Status known = CheckFlagsAreKnown(argc, argv); !known.ok()) {
    std::cerr << "dlsm_tool: " << known.ToString() << "\n";
    return kUsage;
  }
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_data_dir.empty()) FindConfigFile("dlsm_tool");
  // A reader that went away is an error of the write, not the end of this process: the database is
  // still to be closed.
  std::signal(SIGPIPE, SIG_IGN);
  std::ios::sync_with_stdio(false);
  std::cin.tie(nullptr);

  const std::string verb = argc < 2 ? "" : argv[1];
  if (verb == "backup" || verb == "restore") {
    return argc == 4 ? BackupMain(verb, argv[2], argv[3]) : BackupUsage(verb);
  }
  if (verb == "check-backup") return argc == 3 ? CheckBackupMain(argv[2]) : BackupUsage(verb);
  if (argc == 2 && std::string(argv[1]) == "check") return CheckMain();
  if (argc == 2 && std::string(argv[1]) == "doctor") return DoctorMain();
  if (argc == 2 && std::string(argv[1]) == "schedule") return ScheduleMain();
  if (argc == 2 && std::string(argv[1]) == "nodes") return NodesMain();
  if (argc == 2 && std::string(argv[1]) == "quota") return QuotaMain();

  std::vector<Verb> verbs;
  ToolOptions options;
  Status status = ParseCommand(argc, argv, &verbs, &options);
  int failure = kUsage;
  if (status.ok()) {
    failure = kFailed;
    status = Tool(options, &std::cin, &std::cout, &std::cerr).Run(verbs);
  }
  if (status.ok()) return 0;
  std::cerr << "dlsm_tool: " << status.ToString() << "\n";
  return failure;
}

}  // namespace

}  // namespace dlsm::tool

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  return dlsm::tool::Main(argc, argv);
}
