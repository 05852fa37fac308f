// dlsm_serve: any Redis client stores its data in dLSM.
//
// Exit codes: 0 after SIGTERM or SIGINT, 1 when it could not start, 2 for wrong flags. SIGHUP has
// it read the password and the users again, if they come from files.
#include <fmt/core.h>
#include <gflags/gflags.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <memory>
#include <string>

#include "dLSM/db.h"
#include "dLSM/statistics.h"
#include "db/metrics/db_metrics.h"
#include "db/serve/records.h"
#include "db/serve/resp_server.h"
#include "db/serve/serve_metrics.h"
#include "util/fabric/tls/tls_context.h"
#include "util/file_descriptor.h"
#include "util/known_flags.h"
#include "util/log.h"
#include "util/metrics/metrics_endpoint.h"
#include "util/program_version.h"
#include "util/secret_file.h"
#include "util/status_macros.h"

DEFINE_int32(port, 6379, "the port to listen on; 0: any free one");
DEFINE_string(bind, "127.0.0.1", "numeric address to listen on");
DEFINE_bool(insecure, false, "allow --bind to other machines without passwords");
DEFINE_string(password_file, "",
              "file with the password of AUTH; readable by its owner only; read again at SIGHUP");
DEFINE_string(aclfile, "",
              "file with users, as Redis has it; readable by its owner only; read again at SIGHUP "
              "and by ACL LOAD");
DEFINE_string(tls_certificate_file, "",
              "PEM: the certificate that clients are shown; all connections use TLS 1.3 then");
DEFINE_string(tls_key_file, "", "PEM: its key; readable by its owner only");
DEFINE_string(tls_ca_file, "", "PEM: clients must show a certificate that leads there");
DEFINE_string(data_dir, "",
              "directory of a database inside this process; empty and no memory nodes: it is in "
              "memory, and ends with this process");
DEFINE_string(memory_nodes, "", "where the database lies, as host:port,host:port");
DEFINE_string(config, "", "connection.conf of the cluster, instead of --memory_nodes");
DEFINE_string(fabric, "", "for --memory_nodes: shm, tcp or verbs; empty: by the memory node");
DEFINE_string(secret_file, "", "file with the secret of the memory nodes");
DEFINE_string(database, "redis", "its name");
DEFINE_string(appendfsync, "everysec",
              "always: each write is on disk before it is answered; everysec: within a second, and "
              "in the memory node's files at once");
DEFINE_string(backup_dir, "",
              "directory into which SAVE and BGSAVE write the file dump.backup, which dlsm_tool "
              "restores; empty: they are refused");
DEFINE_int32(threads, 1, "event loops");
DEFINE_int32(maxclients, 10'000, "clients at a time");
DEFINE_int32(timeout, 0, "seconds after which an idle client is cut off; 0: never");
DEFINE_uint64(client_query_buffer_limit, uint64_t{1} << 30,
              "bytes that a client may have sent of a request that is not complete");
DEFINE_uint64(client_output_buffer_limit, uint64_t{1} << 28,
              "bytes of answers that a client may leave; one that has more to take is cut off");
DEFINE_int32(metrics_port, 0, "port for Prometheus, at the address of --bind; 0: none");
DEFINE_uint64(write_buffer_size, 64 << 20, "bytes of a memtable");

namespace dlsm::serve {
namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

bool IsForOthers() {
  return FLAGS_bind != "::1" && !FLAGS_bind.starts_with("127.") && !FLAGS_insecure;
}

Status CheckFlags() {
  const auto wrong = [](const std::string& flag, const std::string& wanted) {
    return Status::InvalidArgument("--" + flag + ": " + wanted);
  };
  constexpr int kPortMax = 65535;
  if (FLAGS_port < 0 || FLAGS_port > kPortMax) return wrong("port", "0 to 65535");
  if (FLAGS_metrics_port < 0 || FLAGS_metrics_port > kPortMax) {
    return wrong("metrics_port", "0 to 65535");
  }
  if (FLAGS_threads < 1 || FLAGS_threads > 256) return wrong("threads", "1 to 256");
  if (FLAGS_maxclients < 1) return wrong("maxclients", "at least 1");
  if (FLAGS_timeout < 0) return wrong("timeout", "at least 0");
  constexpr uint64_t kLimitMin = uint64_t{1} << 20;
  if (FLAGS_client_query_buffer_limit < kLimitMin) {
    return wrong("client_query_buffer_limit", "at least 1048576, which is 1 MiB");
  }
  if (FLAGS_client_output_buffer_limit < kLimitMin) {
    return wrong("client_output_buffer_limit", "at least 1048576, which is 1 MiB");
  }
  if (FLAGS_appendfsync != "always" && FLAGS_appendfsync != "everysec") {
    return wrong("appendfsync", "always or everysec");
  }
  if (IsForOthers() && FLAGS_password_file.empty() && FLAGS_aclfile.empty()) {
    return Status::InvalidArgument(fmt::format(
        "--bind={} lets other machines read and write the database; give a --password_file, an "
        "--aclfile, or --insecure if nobody else can reach that address",
        FLAGS_bind));
  }
  return Status::OK();
}

Status MakeTls(std::shared_ptr<const TlsContext>* tls) {
  TlsConfig config;
  config.certificate_file = FLAGS_tls_certificate_file;
  config.key_file = FLAGS_tls_key_file;
  config.ca_file = FLAGS_tls_ca_file;
  if (!config.on()) return Status::OK();
  if (config.certificate_file.empty()) {
    return Status::InvalidArgument("--tls_key_file and --tls_ca_file: only with a certificate",
                                   "give --tls_certificate_file");
  }
  return TlsContext::ForServer(
      config, [](const std::string&) { return std::string(); }, tls);
}

Status OpenDatabase(std::unique_ptr<DB>* db) {
  Options options;
  options.create_if_missing = true;
  options.embedded_dir = FLAGS_data_dir;
  options.memory_nodes = FLAGS_memory_nodes;
  options.fabric = FLAGS_fabric;
  options.write_buffer_size = FLAGS_write_buffer_size;
  options.compaction_filter = ExpiredStringsFilter();
  if (!FLAGS_config.empty()) options.config = FLAGS_config;
  if (!FLAGS_secret_file.empty()) options.secret_file = FLAGS_secret_file;
  return DB::Open(options, FLAGS_database, db);
}

Status StartMetrics(RespServer* server, std::unique_ptr<MetricsEndpoint>* metrics) {
  if (FLAGS_metrics_port == 0) return Status::OK();
  server->db().GetStatistics()->SetLevel(StatsLevel::kLatencies);
  return MetricsEndpoint::Start(FLAGS_bind, FLAGS_metrics_port,
                                {std::make_shared<ServeMetrics>(&server->state()),
                                 std::make_shared<DbMetrics>(&server->db())},
                                metrics);
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

int Fail(const Status& status, int code) {
  fmt::print(stderr, "dlsm_serve: {}\n", status.message().ToStringView());
  if (code == kExitUsage) fmt::print(stderr, "dlsm_serve --help lists the flags\n");
  return code;
}

// Of the two files each counts by itself: one that is broken leaves as it was what it had said.
void ReadFilesAgain(RespServer* server) {
  if (!FLAGS_password_file.empty()) {
    std::string password;
    const Status read = ReadSecretFile(FLAGS_password_file, &password);
    if (read.ok()) {
      server->SetPassword(password);
      Log().Warn("the password file {} has been read again", FLAGS_password_file);
    } else {
      Log().Error("the password stays as it was: {}", read.ToString());
    }
  }
  if (!FLAGS_aclfile.empty()) {
    const Status read = server->LoadUsers();
    if (read.ok()) {
      Log().Warn("the ACL file {} has been read again", FLAGS_aclfile);
    } else {
      Log().Error("the users stay as they were: {}", read.ToString());
    }
  }
}

void RunUntilStopped(const sigset_t& signals, RespServer* server) {
  while (true) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (signal != SIGHUP) return;
    ReadFilesAgain(server);
  }
}

int Run(const sigset_t& signals) {
  if (const Status flags = CheckFlags(); !flags.ok()) return Fail(flags, kExitUsage);
  RaiseDescriptorLimit();
  RespServerOptions options;
  options.bind = FLAGS_bind;
  options.port = FLAGS_port;
  options.threads = static_cast<size_t>(FLAGS_threads);
  options.clients_max = static_cast<size_t>(FLAGS_maxclients);
  options.sync = FLAGS_appendfsync == "always";
  options.limits.idle_seconds = FLAGS_timeout;
  options.limits.query_bytes = FLAGS_client_query_buffer_limit;
  options.limits.output_bytes = FLAGS_client_output_buffer_limit;
  options.acl_file = FLAGS_aclfile;
  options.backup_dir = FLAGS_backup_dir;
  options.wants_passwords = IsForOthers();
  Status status;
  if (!FLAGS_password_file.empty()) status = ReadSecretFile(FLAGS_password_file, &options.password);
  if (status.ok()) status = MakeTls(&options.tls);
  std::unique_ptr<DB> db;
  if (status.ok()) status = OpenDatabase(&db);
  std::unique_ptr<RespServer> server;
  if (status.ok()) status = RespServer::Start(options, std::move(db), &server);
  std::unique_ptr<MetricsEndpoint> metrics;
  if (status.ok()) status = StartMetrics(server.get(), &metrics);
  if (!status.ok()) return Fail(status, kExitFailed);
  fmt::print("dlsm_serve ready on {}:{}\n", FLAGS_bind, server->port());
  std::fflush(stdout);
  RunUntilStopped(signals, server.get());
  metrics.reset();
  const Status stopped = server->Stop();
  if (!stopped.ok()) return Fail(stopped, kExitFailed);
  fmt::print("dlsm_serve stopped\n");
  return 0;
}

}  // namespace
}  // namespace dlsm::serve

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  signal(SIGPIPE, SIG_IGN);
  gflags::SetUsageMessage("dlsm_serve [--port=6379] [--data_dir=DIR | --memory_nodes=HOST:PORT]");
  const dlsm::Status known = dlsm::CheckFlagsAreKnown(argc, argv);
  if (!known.ok()) return dlsm::serve::Fail(known, dlsm::serve::kExitUsage);
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (!FLAGS_password_file.empty() || !FLAGS_aclfile.empty()) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return dlsm::serve::Run(signals);
}
