#include "db/nodes/sleeping_sessions.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "util/eventually_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kInterval{5};

// A memory node that renews all sessions but some.
class Renewer final : public RpcClient {
 public:
  Status Call(Method method, const Slice& bytes, std::string* reply, Deadline) override {
    EXPECT_EQ(method, Method::kRenewSessions);
    ++calls_;
    while (hangs) std::this_thread::sleep_for(milliseconds(1));
    if (const auto failure = fails.load(); failure != Status::Code::kOk) {
      return Status::FromCode(failure, "as asked");
    }
    RenewSessionsRequest request;
    EXPECT_OK(request.Decode(bytes));
    EXPECT_LE(request.sessions.size(), RenewSessionsRequest::kSessionsMax);
    RenewSessionsReply answer;
    for (const SessionId session : request.sessions) {
      RenewedSession& renewed = answer.sessions.emplace_back();
      renewed.renewed = session != unknown.load();
      renewed.free_bytes = static_cast<uint64_t>(session);
    }
    *reply = answer.Encode();
    return Status::OK();
  }
  int calls() const { return calls_; }

  std::atomic<bool> hangs{false};
  std::atomic<Status::Code> fails{Status::Code::kOk};
  std::atomic<SessionId> unknown{SessionId{}};

 private:
  std::atomic<int> calls_{0};
};

// A handle that sleeps.
class Handle {
 public:
  Handle(RpcClient* rpc, uint64_t first, uint64_t sessions) {
    sleeper.rpc = rpc;
    for (uint64_t i = 0; i < sessions; ++i) sleeper.sessions.push_back(SessionId{first + i});
    sleeper.renewed = [this](std::span<const RenewedSession> renewed_sessions) {
      ASSERT_EQ(renewed_sessions.size(), sleeper.sessions.size());
      for (size_t i = 0; i < renewed_sessions.size(); ++i) {
        EXPECT_EQ(renewed_sessions[i].free_bytes, static_cast<uint64_t>(sleeper.sessions[i]));
      }
      ++renewed;
    };
    sleeper.forgotten = [this] { ++forgotten; };
  }

  SleepingSessions::Sleeper sleeper;
  std::atomic<int> renewed{0};
  std::atomic<int> forgotten{0};
};

class SleepingSessionsTest : public testing::Test {
 protected:
  Handle& NewHandle(uint64_t sessions = 1) {
    handles_.push_back(std::make_unique<Handle>(&node_, next_, sessions));
    next_ += sessions;
    return *handles_.back();
  }
  Handle& AddHandle(uint64_t sessions = 1) {
    Handle& handle = NewHandle(sessions);
    EXPECT_TRUE(sleeping_.Add(&handle.sleeper));
    return handle;
  }
  ~SleepingSessionsTest() override {
    node_.hangs = false;
    for (const auto& handle : handles_) sleeping_.Remove(&handle->sleeper);
  }

  Renewer node_;
  std::vector<std::unique_ptr<Handle>> handles_;
  uint64_t next_ = 1;
  SleepingSessions sleeping_{ThreadPool::OfThisProcess(), kInterval};
};

// Fails if each handle costs a call, if one is left out, or if one is told of another's sessions.
TEST_F(SleepingSessionsTest, OneCallRenewsAll) {
  for (uint64_t i = 0; i < 100; ++i) AddHandle(1 + i % 3);
  EXPECT_TRUE(Eventually([this] { return handles_.back()->renewed >= 3; }));
  for (const auto& handle : handles_) sleeping_.Remove(&handle->sleeper);
  const int calls = node_.calls();
  for (const auto& handle : handles_) {
    EXPECT_EQ(handle->forgotten, 0);
    EXPECT_GE(handle->renewed, 2);
    EXPECT_LE(handle->renewed, calls);
  }
  std::this_thread::sleep_for(3 * kInterval);
  EXPECT_EQ(node_.calls(), calls) << "nobody sleeps any more";
}

// Fails if more of them than a request may have are not asked for in several.
TEST_F(SleepingSessionsTest, AsManyCallsAsAreNeeded) {
  constexpr uint64_t kEach = RenewSessionsRequest::kSessionsMax / 2 + 1;
  for (int i = 0; i < 3; ++i) AddHandle(kEach);
  EXPECT_TRUE(Eventually([this] { return handles_.back()->renewed >= 2; }));
  EXPECT_GE(node_.calls(), 6);
}

// Fails if a handle is not told that its session was not renewed, or others are told instead.
TEST_F(SleepingSessionsTest, WhoWasForgottenIsTold) {
  node_.unknown = SessionId{2};
  for (int i = 0; i < 3; ++i) AddHandle();
  EXPECT_TRUE(
      Eventually([this] { return handles_[1]->forgotten > 0 && handles_[2]->renewed > 0; }));
  EXPECT_EQ(handles_[1]->renewed, 0);
  EXPECT_EQ(handles_[0]->forgotten, 0);
  EXPECT_EQ(handles_[2]->forgotten, 0);
}

// Fails if handles are not told when nobody knows whether their sessions were renewed; or if they
// are asked for once more where the memory node does not know how.
TEST_F(SleepingSessionsTest, AllAreToldOfACallThatFails) {
  node_.fails = Status::Code::kIOError;
  for (int i = 0; i < 3; ++i) AddHandle();
  EXPECT_TRUE(Eventually([this] { return handles_[2]->forgotten > 1; }));
  EXPECT_EQ(handles_[2]->renewed, 0);
  node_.fails = Status::Code::kOk;
  EXPECT_TRUE(Eventually([this] { return handles_[0]->renewed > 0; }));
  node_.fails = Status::Code::kNotSupported;
  EXPECT_TRUE(Eventually([this] { return !sleeping_.Add(&NewHandle().sleeper); }));
}

// Fails if a handle is closed while a call goes over its connection, or if another one has to wait
// for that.
TEST_F(SleepingSessionsTest, WhoseConnectionIsInUseWaits) {
  Handle& only = AddHandle();
  node_.hangs = true;
  const int before = node_.calls();
  ASSERT_TRUE(Eventually([&] { return node_.calls() > before; }));
  sleeping_.Remove(&AddHandle().sleeper);
  std::atomic<bool> removed{false};
  std::thread remover([&] {
    sleeping_.Remove(&only.sleeper);
    removed = true;
  });
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_FALSE(removed);
  node_.hangs = false;
  remover.join();
  const int renewed = only.renewed;
  std::this_thread::sleep_for(2 * kInterval);
  EXPECT_EQ(only.renewed, renewed);
}

}  // namespace
}  // namespace dlsm
