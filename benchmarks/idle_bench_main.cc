// What open databases cost while nobody uses them: threads, processor time, wake-ups, calls, memory
// here and at the memory node.
//
//   idle_bench --handles=1000 [--memory_nodes=HOST:PORT [--server_pid=PID]] [--written_bytes=N]
//
// Without --memory_nodes the memory node is embedded: its threads and processor time count as this
// process's.
#include <dirent.h>
#include <fmt/core.h>
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/options.h"
#include "dLSM/status.h"
#include "db/nodes/memory_node_link.h"
#include "port/clock.h"
#include "util/deadline.h"
#include "util/file_descriptor.h"
#include "util/program_version.h"
#include "util/random.h"
#include "util/rpc/channel/rpc.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/node_connection.h"
#include "util/status_macros.h"

DEFINE_uint32(handles, 1000, "databases that are open at once");
DEFINE_string(memory_nodes, "", "as Options::memory_nodes; empty: the embedded memory node");
DEFINE_string(fabric, "", "as Options::fabric");
DEFINE_int32(server_pid, 0, "the Server's process, to be measured too; 0: none");
DEFINE_uint64(written_bytes, 0, "written into each database, and flushed, before");
DEFINE_uint64(unflushed_bytes, 0, "written into each database, and not flushed, before");
DEFINE_uint64(write_buffer_size, 4 << 20, "as Options::write_buffer_size");
DEFINE_uint64(embedded_memory_bytes, uint64_t{8} << 30, "as Options::embedded_memory_bytes");
DEFINE_uint32(settle_seconds, 5, "how long to wait before it is measured");
DEFINE_uint32(seconds, 10, "how long to measure");

namespace dlsm {
namespace {

// Of a process, as the kernel tells.
struct Usage {
  uint64_t threads = 0;
  uint64_t resident_kb = 0;
  uint64_t wakeups = 0;  // Voluntary switches of the threads that there are.
  double cpu_seconds = 0;
};

uint64_t Field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stoull(line.substr(name.size() + 1));
  }
  return 0;
}

// User and system time, ended threads included.
double CpuSeconds(const std::string& process) {
  std::ifstream file(process + "/stat");
  std::string line;
  std::getline(file, line);
  // The name, in brackets, may have spaces.
  std::vector<std::string> fields;
  std::string field;
  for (const char c : line.substr(line.rfind(')') + 2)) {
    if (c != ' ') {
      field += c;
    } else {
      fields.push_back(std::exchange(field, {}));
    }
  }
  constexpr size_t kUserTime = 11;
  const auto ticks = std::stoull(fields[kUserTime]) + std::stoull(fields[kUserTime + 1]);
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

Usage UsageOf(int pid) {
  const std::string process = fmt::format("/proc/{}", pid);
  Usage usage;
  usage.threads = Field(process + "/status", "Threads");
  usage.resident_kb = Field(process + "/status", "VmRSS");
  usage.cpu_seconds = CpuSeconds(process);
  const std::string tasks = process + "/task";
  DIR* const directory = opendir(tasks.c_str());
  if (directory == nullptr) return usage;
  while (const dirent* const entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    usage.wakeups += Field(tasks + "/" + entry->d_name + "/status", "voluntary_ctxt_switches");
  }
  closedir(directory);
  return usage;
}

// A thread that has ended takes its own away.
double Wakeups(const Usage& before, const Usage& after) {
  return static_cast<double>(after.wakeups - std::min(before.wakeups, after.wakeups));
}

void Print(const char* name, const Usage& before, const Usage& after) {
  fmt::print(
      "{:<14} {:>7} threads {:>8.2f}% of a processor {:>9.1f} wake-ups/s {:>9} KB resident\n", name,
      after.threads, 100 * (after.cpu_seconds - before.cpu_seconds) / FLAGS_seconds,
      Wakeups(before, after) / FLAGS_seconds, after.resident_kb);
}

Status Fill(DB* db, uint64_t bytes, uint64_t seed) {
  constexpr size_t kValueBytes = 400;
  Random random(seed);
  const std::string value(kValueBytes, 'v');
  for (uint64_t written = 0; written < bytes; written += kValueBytes) {
    DLSM_RETURN_IF_ERROR(db->Put({}, fmt::format("{:020}", random.Next()), value));
  }
  return Status::OK();
}

Status PrintMemoryNode(const Options& options, const char* when) {
  std::vector<std::string> nodes;
  DLSM_RETURN_IF_ERROR(MemoryNodesOf(options, &nodes));
  for (const std::string& node : nodes) {
    std::unique_ptr<NodeConnection> connection;
    DLSM_RETURN_IF_ERROR(ConnectToMemoryNode(options, node, &connection));
    std::string bytes;
    DLSM_RETURN_IF_ERROR(connection->rpc().Call(Method::kNodeStatistics, Slice(), &bytes,
                                                Deadline::In(std::chrono::seconds(10))));
    NodeStatisticsReply reply;
    DLSM_RETURN_IF_ERROR(reply.Decode(bytes));
    fmt::print("memory node {}, {}: {:.1f} KB used for each handle\n", node, when,
               static_cast<double>(reply.used_bytes) / 1024 / FLAGS_handles);
  }
  return Status::OK();
}

Status Run() {
  Options options;
  options.create_if_missing = true;
  options.memory_nodes = FLAGS_memory_nodes;
  options.fabric = FLAGS_fabric;
  options.write_buffer_size = FLAGS_write_buffer_size;
  options.embedded_memory_bytes = FLAGS_embedded_memory_bytes;
  options.log = LogLevel::kNone;  // A log would be most of what an idle handle has.
  const uint64_t resident_before = UsageOf(getpid()).resident_kb;
  const auto opening = port::Clock::now();
  std::vector<std::unique_ptr<DB>> handles(FLAGS_handles);
  for (size_t i = 0; i < handles.size(); ++i) {
    DLSM_RETURN_IF_ERROR(DB::Open(options, fmt::format("idle-{}", i), &handles[i]));
    if (FLAGS_written_bytes > 0) {
      DLSM_RETURN_IF_ERROR(Fill(handles[i].get(), FLAGS_written_bytes, i));
      DLSM_RETURN_IF_ERROR(handles[i]->Flush({}));
    }
    DLSM_RETURN_IF_ERROR(Fill(handles[i].get(), FLAGS_unflushed_bytes, i));
  }
  const auto opened = port::Clock::now();
  fmt::print("{} handles, opened in {:.2f} s\n", handles.size(),
             std::chrono::duration<double>(opened - opening).count());
  port::SleepFor(std::chrono::seconds(FLAGS_settle_seconds));
  DLSM_RETURN_IF_ERROR(PrintMemoryNode(options, "settled"));
  const int server = FLAGS_server_pid;
  const Usage before = UsageOf(getpid());
  const Usage server_before = server != 0 ? UsageOf(server) : Usage();
  port::SleepFor(std::chrono::seconds(FLAGS_seconds));
  const Usage after = UsageOf(getpid());
  Print("this process", before, after);
  if (server != 0) Print("the Server", server_before, UsageOf(server));
  fmt::print("{:.1f} KB resident for each handle here\n",
             static_cast<double>(after.resident_kb - resident_before) /
                 static_cast<double>(handles.size()));
  DLSM_RETURN_IF_ERROR(PrintMemoryNode(options, "idle"));
  const auto closing = port::Clock::now();
  for (auto& handle : handles) DLSM_RETURN_IF_ERROR(handle->Close());
  fmt::print("closed in {:.2f} s\n",
             std::chrono::duration<double>(port::Clock::now() - closing).count());
  return Status::OK();
}

}  // namespace
}  // namespace dlsm

int main(int argc, char** argv) {
  dlsm::OccupyStandardDescriptors();
  if (dlsm::PrintedVersion(argc, argv)) return 0;
  gflags::SetUsageMessage("idle_bench [flags]");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const dlsm::Status status = dlsm::Run();
  if (status.ok()) return 0;
  fmt::print(stderr, "idle_bench: {}\n", status.ToString());
  return 1;
}
