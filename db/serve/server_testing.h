// A server in a test's process, and a client that speaks its protocol and nothing more.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "dLSM/db.h"
#include "db/serve/records.h"
#include "db/serve/resp_server.h"
#include "util/fabric/decorators/fault_injector.h"
#include "util/file_descriptor.h"
#include "util/status_testing.h"

namespace dlsm::serve {

class TestClient {
 public:
  explicit TestClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const timeval patience{20, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }

  // Returns false if the server has closed the connection.
  bool TrySendBytes(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t count =
          send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<size_t>(count);
    }
    return true;
  }
  // Breaks the connection off: what the other end sends finds none.
  void Reset() {
    const linger now{1, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    socket_ = FileDescriptor();
  }
  void SendBytes(const std::string& bytes) { ASSERT_TRUE(TrySendBytes(bytes)); }
  static std::string Encode(const std::vector<std::string>& words) {
    std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words) {
      bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    }
    return bytes;
  }
  void Send(const std::vector<std::string>& words) { SendBytes(Encode(words)); }

  // The next reply as a text: "OK", "-ERR ...", "(1)" for a number, "nil", "\"bulk\"",
  // "[a, b]" for arrays, sets and maps. "closed" if there is none.
  std::string Receive() {
    std::string line;
    if (!Line(&line) || line.empty()) return "closed";
    const std::string rest = line.substr(1);
    switch (line[0]) {
      case '+':
        return rest;
      case '-':
        return line;
      case ':':
        return "(" + rest + ")";
      case ',':
      case '#':
        return rest;
      case '_':
        return "nil";
      case '$':
      case '=':
        return rest == "-1" ? "nil" : '"' + Bytes(std::stoul(rest)) + '"';
      case '*':
      case '~':
        return rest == "-1" ? "nil" : Elements(std::stoul(rest));
      case '%':
        return Elements(2 * std::stoul(rest));
      default:
        return "?" + line;
    }
  }
  std::string Call(const std::vector<std::string>& words) {
    Send(words);
    return Receive();
  }
  // Words divided by spaces.
  std::string operator()(const std::string& line) {
    SendBytes(line + "\r\n");
    return Receive();
  }

 private:
  std::string Elements(size_t count) {
    std::string text = "[";
    for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + Receive();
    return text + "]";
  }
  bool Fill() {
    char bytes[4096];
    const ssize_t count = recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (count <= 0) return false;
    received_.append(bytes, static_cast<size_t>(count));
    return true;
  }
  bool Line(std::string* line) {
    size_t end;
    while ((end = received_.find("\r\n")) == std::string::npos) {
      if (!Fill()) return false;
    }
    *line = received_.substr(0, end);
    received_.erase(0, end + 2);
    return true;
  }
  std::string Bytes(size_t count) {
    while (received_.size() < count + 2) {
      if (!Fill()) return "closed";
    }
    std::string bytes = received_.substr(0, count);
    received_.erase(0, count + 2);
    return bytes;
  }

  FileDescriptor socket_;
  std::string received_;
};

class ServerTest : public testing::Test {
 protected:
  void TearDown() override {
    if (server_ != nullptr) server_->Stop().PermitUncheckedError();
    if (in_memory_) {
      EXPECT_OK(DestroyDB(kName, Options()));
    }
  }
  void Start(RespServerOptions options = {}, const std::string& directory = "") {
    in_memory_ = directory.empty();
    Options of_database;
    of_database.create_if_missing = true;
    of_database.embedded_memory_bytes = uint64_t{256} << 20;
    of_database.write_buffer_size = 1 << 20;
    of_database.compaction_filter = ExpiredStringsFilter();
    if (!directory.empty()) {
      of_database.embedded_dir = directory;
      of_database.embedded_memory_bytes = 0;
    }
    of_database.fault_injector = injector_;
    if (injector_ != nullptr) of_database.operation_timeout_ms = 200;
    std::unique_ptr<DB> db;
    ASSERT_OK(DB::Open(of_database, kName, &db));
    db_ = db.get();
    options.port = 0;
    ASSERT_OK(RespServer::Start(options, std::move(db), &server_));
  }
  TestClient NewClient() const { return TestClient(server_->port()); }

  static constexpr const char* kName = "redis";
  std::shared_ptr<FaultInjector> injector_;  // Set before Start(), if transfers are to fail.
  DB* db_ = nullptr;                         // The server's.
  std::unique_ptr<RespServer> server_;

 private:
  bool in_memory_ = false;
};

}  // namespace dlsm::serve
