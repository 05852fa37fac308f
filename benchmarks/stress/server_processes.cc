#include "benchmarks/stress/server_processes.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

#include "port/error_text.h"
#include "util/deadline.h"
#include "util/file_descriptor.h"
#include "util/rpc/messages/messages.h"
#include "util/rpc/node_connection.h"
#include "util/status_macros.h"

namespace dlsm::stress {
namespace {

constexpr const char* kAddress = "127.0.0.1";
constexpr auto kStartPatience = std::chrono::seconds(60);

// One that nobody listens on now.
Status FreePort(uint16_t* port) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  if (!socket.valid() ||
      ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return Status::IOError("no port can be had", port::ErrorText(errno));
  }
  *port = ntohs(address.sin_port);
  return Status::OK();
}

Status Connect(uint16_t port, std::unique_ptr<NodeConnection>* connection) {
  NodeConnectionOptions options;
  options.fabric.kind = FabricKind::kTcp;
  options.client_name = "db_stress";
  return ConnectNode({kAddress, port}, options, Deadline::In(kStartPatience), connection);
}

}  // namespace

ServerProcesses::~ServerProcesses() {
  for (size_t i = 0; i < processes_.size(); ++i) Kill(i);
}

Status ServerProcesses::Start(const std::string& program, int count, const std::string& fabric,
                              const std::string& directory) {
  program_ = program;
  for (int i = 0; i < count; ++i) {
    Process& process = processes_.emplace_back();
    DLSM_RETURN_IF_ERROR(FreePort(&process.port));
    process.arguments = {"Server",
                         fmt::format("{}", process.port),
                         "1",
                         fmt::format("{}", i + 1),
                         "--fabric=" + fabric,
                         "--status_seconds=0",
                         fmt::format("--data_dir={}/node{}", directory, i + 1)};
    DLSM_RETURN_IF_ERROR(Run(&process));
  }
  return Status::OK();
}

Status ServerProcesses::Run(Process* process) {
  std::vector<char*> raw;
  for (const std::string& argument : process->arguments) {
    raw.push_back(const_cast<char*>(argument.c_str()));
  }
  raw.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return Status::IOError("no process can be started", port::ErrorText(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
    execv(program_.c_str(), raw.data());
    _exit(127);
  }
  process->id = child;
  // It listens when everything is there; or it has ended, and has said why.
  std::unique_ptr<NodeConnection> connection;
  const auto until = std::chrono::steady_clock::now() + kStartPatience;
  while (std::chrono::steady_clock::now() < until) {
    int exited = 0;
    if (waitpid(child, &exited, WNOHANG) != 0) {
      process->id = 0;
      return Status::Corruption(fmt::format("a Server did not start (status {})", exited));
    }
    NodeConnectionOptions options;
    options.fabric.kind = FabricKind::kTcp;
    options.client_name = "db_stress";
    const Status reached = ConnectNode({kAddress, process->port}, options,
                                       Deadline::In(std::chrono::milliseconds(200)), &connection);
    if (reached.ok()) return reached;
  }
  return Status::Corruption("a Server does not serve a minute after its start");
}

void ServerProcesses::Kill(size_t number) {
  Process& process = processes_[number];
  if (process.id == 0) return;
  kill(process.id, SIGKILL);
  waitpid(process.id, nullptr, 0);
  process.id = 0;
}

Status ServerProcesses::Restart(size_t number) { return Run(&processes_[number]); }

Status ServerProcesses::RestartAll() {
  for (Process& process : processes_) {
    if (process.id == 0) DLSM_RETURN_IF_ERROR(Run(&process));
  }
  return Status::OK();
}

std::string ServerProcesses::addresses() const {
  std::string addresses;
  for (const Process& process : processes_) {
    addresses += fmt::format("{}{}:{}", addresses.empty() ? "" : ",", kAddress, process.port);
  }
  return addresses;
}

Status ServerProcesses::UsedBytes(uint64_t* bytes) const {
  *bytes = 0;
  for (const Process& process : processes_) {
    std::unique_ptr<NodeConnection> connection;
    DLSM_RETURN_IF_ERROR(Connect(process.port, &connection));
    std::string reply;
    DLSM_RETURN_IF_ERROR(connection->rpc().Call(Method::kNodeStatistics, Slice(), &reply,
                                                Deadline::In(kStartPatience)));
    NodeStatisticsReply statistics;
    DLSM_RETURN_IF_ERROR(statistics.Decode(reply));
    *bytes += statistics.used_bytes;
  }
  return Status::OK();
}

}  // namespace dlsm::stress
