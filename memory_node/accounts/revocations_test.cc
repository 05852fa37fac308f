#include "memory_node/accounts/revocations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "util/eventually_testing.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using std::chrono::seconds;

constexpr uint64_t kRevokedCapacity = uint64_t{1} << 20;

class RevocationsTest : public testing::Test {
 protected:
  RevocationsTest() {
    EXPECT_OK(accounts_.Make("a", /*room_is_coming=*/false, &database_));
    revoker_.SetCutOff([this](const std::string&) {
      ++attempts_;
      return certain_ ? Status::OK() : Status::IOError("it still has access");
    });
  }
  // The outcomes are told to what is destroyed after it.
  ~RevocationsTest() override {
    revoker_.Stop();
    EXPECT_OK(accounts_.CheckInvariants());
  }

  static AccountsOptions Options(OwnMemory* memory) {
    AccountsOptions options;
    options.node = NodeId{1};
    options.memory = memory;
    options.capacity_bytes = kRevokedCapacity;
    return options;
  }
  // A session that had the header alone ends; returns its number.
  uint64_t End(SessionId session, bool let_go, const std::string& token,
               std::function<void()> done = {}) {
    Revocations::EndedSession ended;
    ended.database = database_;
    ended.session = session;
    ended.client = "client";
    ended.connection = 7;
    ended.let_go = let_go;
    if (!token.empty()) ended.tokens.push_back(token);
    Revocations::Prepared prepared = revocations_.Prepare(std::move(ended));
    Accounts::SessionEnd end;
    end.number = prepared.number();
    EXPECT_OK(accounts_.EndSession(*database_, end));
    revocations_.Begin(std::move(prepared), &done);
    was_taken_over_ = !done;
    return end.number;
  }
  bool IsFenced(uint64_t number) { return accounts_.FencedBytes(*database_, number) > 0; }

  const std::unique_ptr<char[]> bytes_ = std::make_unique<char[]>(kRevokedCapacity);
  OwnMemory memory_{NodeId{1}, RegionId{}, bytes_.get(), kRevokedCapacity};
  ReaderLeases readers_;
  Accounts accounts_{Options(&memory_), &readers_};
  AccessRevoker revoker_;
  Revocations revocations_{&revoker_, &accounts_};
  DatabasePointer database_;
  std::atomic<bool> certain_{true};
  std::atomic<int> attempts_{0};
  bool was_taken_over_ = false;
  const Revocations::Clock::time_point start_{};
};

// Fails if a fence stays without a reason, or `done` is taken over and never called.
TEST_F(RevocationsTest, WithoutAccessThereIsNothingToWaitFor) {
  int done = 0;
  const uint64_t number = End(SessionId{1}, /*let_go=*/true, "", [&done] { ++done; });
  EXPECT_FALSE(was_taken_over_) << "the caller calls it";
  EXPECT_FALSE(IsFenced(number));
  EXPECT_TRUE(revocations_.empty());
  EXPECT_FALSE(revocations_.IsCutOff(7));
}

// Fails if memory is given to others while it is not certain that its client reaches it no more.
TEST_F(RevocationsTest, AFenceLastsUntilTheAccessIsGoneForCertain) {
  certain_ = false;
  std::atomic<int> done{0};
  const uint64_t number = End(SessionId{1}, /*let_go=*/true, "token", [&done] { ++done; });
  EXPECT_TRUE(was_taken_over_);
  EXPECT_TRUE(Eventually([&] { return done == 1; })) << "the first attempt has ended";
  EXPECT_TRUE(IsFenced(number));
  EXPECT_EQ(revocations_.quarantined_bytes(), kDatabaseHeaderBytes);
  EXPECT_TRUE(revocations_.IsCutOff(7));
  const std::optional<Revocations::Blocked> blocked = revocations_.BlockOn(*database_);
  ASSERT_TRUE(blocked.has_value());
  EXPECT_EQ(blocked->client, "client");
  EXPECT_TRUE(blocked->failure.IsIOError());
  certain_ = true;
  EXPECT_TRUE(Eventually([&] { return revocations_.empty(); }));
  EXPECT_FALSE(IsFenced(number));
  EXPECT_EQ(revocations_.quarantined_bytes(), 0u);
  EXPECT_GT(attempts_, 1);
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(revocations_.BlockOn(*database_).has_value());
  EXPECT_TRUE(revocations_.IsCutOff(7)) << "its connection is there still";
  revocations_.Disconnected(7, start_);
  EXPECT_FALSE(revocations_.IsCutOff(7));
}

// Clients map the region. Fails if memory is given to others before the client has let go of it,
// or if one that is heard of over a later connection counts as gone.
TEST_F(RevocationsTest, WhereAccessCannotBeTakenAwayTheClientLetsGo) {
  const uint64_t first = End(SessionId{1}, /*let_go=*/false, "");
  const uint64_t second = End(SessionId{2}, /*let_go=*/false, "");
  const uint64_t third = End(SessionId{3}, /*let_go=*/false, "");
  revocations_.EndThoseOver();
  EXPECT_TRUE(IsFenced(first) && IsFenced(second) && IsFenced(third));
  revocations_.LetGo(SessionId{1});
  EXPECT_FALSE(IsFenced(first));
  EXPECT_TRUE(IsFenced(second) && IsFenced(third));

  revocations_.Disconnected(7, start_ + seconds(2));
  revocations_.NoteAlive(RpcPeer{8, "client"}, SessionId{2});
  revocations_.NoteAlive(RpcPeer{6, "client"}, SessionId{3});  // Sent before.
  revocations_.MoveOn(seconds(3));
  revocations_.NoteGone(start_ + seconds(4));
  revocations_.EndThoseOver();
  EXPECT_TRUE(IsFenced(second) && IsFenced(third));
  revocations_.NoteGone(start_ + seconds(5));
  revocations_.EndThoseOver();
  EXPECT_TRUE(IsFenced(second));
  EXPECT_FALSE(IsFenced(third));
  revocations_.Disconnected(8, start_ + seconds(6));
  revocations_.NoteGone(start_ + seconds(6));
  revocations_.EndThoseOver();
  EXPECT_TRUE(revocations_.empty());
  EXPECT_FALSE(IsFenced(second));
}

}  // namespace
}  // namespace dlsm
