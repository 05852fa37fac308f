#include "memory_node/store/store_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "memory_node/store/forgetful_disk.h"
#include "util/eventually_testing.h"
#include "util/status_testing.h"

namespace dlsm {
namespace {

using testing::HasSubstr;

// One quota, which a test changes, and a database whose manifest it puts.
class Source : public StoredSource {
 public:
  void TakeSnapshot(const std::map<uint64_t, uint64_t>& manifests, StoredRows* rows,
                    uint64_t* change) override {
    const port::MutexLock lock(mutex_);
    *change = keeper_->change();
    StoredQuotas quotas;
    quotas.bytes_by_owner["a"] = value_;
    (*rows)[{StoredKind::kQuotas, 0}] = quotas.Encode();
    StoredDatabase database;
    database.incarnation = 1;
    database.name = "d";
    database.manifest_version = version_;
    (*rows)[{StoredKind::kDatabase, 1}] = database.Encode();
    const auto has = manifests.find(1);
    if (version_ > 0 && (has == manifests.end() || has->second != version_)) {
      const StoredManifest manifest{version_, "m"};
      (*rows)[{StoredKind::kManifest, 1}] = manifest.Encode(1);
    }
  }
  void NotePersisted(uint64_t change) override {
    const port::MutexLock lock(mutex_);
    persisted_ = change;
  }

  void Watch(StoreKeeper* keeper) { keeper_ = keeper; }
  void Set(uint64_t value) {
    const port::MutexLock lock(mutex_);
    value_ = value;
    keeper_->NoteChange();
  }
  void PutManifest() {
    const port::MutexLock lock(mutex_);
    ++version_;
    keeper_->NoteChange();
  }
  uint64_t persisted() {
    const port::MutexLock lock(mutex_);
    return persisted_;
  }

 private:
  StoreKeeper* keeper_ = nullptr;
  port::Mutex mutex_;
  uint64_t value_ GUARDED_BY(mutex_) = 0;
  uint64_t version_ GUARDED_BY(mutex_) = 0;
  uint64_t persisted_ GUARDED_BY(mutex_) = 0;
};

class StoreKeeperTest : public testing::Test {
 protected:
  StoreKeeperTest() : keeper_(std::make_unique<ForgetfulFiles>(&disk_)) {
    source_.Watch(&keeper_);
    disk_.SetFaults([this](const char* call) {
      const port::MutexLock lock(mutex_);
      calls_.emplace_back(call);
      return faulty_.empty() || faulty_ == call ? fault_ : Status::OK();
    });
    keeper_.Start({}, "contents", &source_);
    EXPECT_OK(Await(/*persisted=*/false));
    first_calls_ = TakeCalls();
  }
  ~StoreKeeperTest() override { keeper_.Stop(); }

  Status Await(bool persisted) {
    return AwaitCall([&](auto done) { keeper_.WhenStored(persisted, std::move(done)); });
  }
  Status Persist(std::vector<RemoteSpan> spans) {
    return AwaitCall([&](auto done) { keeper_.Persist(std::move(spans), std::move(done)); });
  }
  static Status AwaitCall(
      const std::function<void(std::function<void(const Status&)> done)>& function) {
    struct Answer {
      port::Mutex mutex;
      port::CondVar answered{mutex};
      bool done GUARDED_BY(mutex) = false;
      Status status GUARDED_BY(mutex);
    };
    const auto answer = std::make_shared<Answer>();
    function([answer](const Status& status) {
      const port::MutexLock lock(answer->mutex);
      answer->done = true;
      answer->status = status;
      answer->answered.Signal();
    });
    const port::MutexLock lock(answer->mutex);
    while (!answer->done) answer->answered.Wait();
    return answer->status;
  }
  // Of all calls, or of those of one name.
  void Fail(const Status& status, const std::string& call = "") {
    const port::MutexLock lock(mutex_);
    fault_ = status;
    faulty_ = call;
  }
  std::vector<std::string> TakeCalls() {
    const port::MutexLock lock(mutex_);
    return std::exchange(calls_, {});
  }
  uint64_t StoredValue() {
    StoredQuotas quotas;
    EXPECT_OK(StoredQuotas::Decode(disk_.rows().at({StoredKind::kQuotas, 0}), &quotas));
    return quotas.bytes_by_owner["a"];
  }

  ForgetfulDisk disk_{1 << 16};
  port::Mutex mutex_;
  std::vector<std::string> calls_ GUARDED_BY(mutex_);
  std::vector<std::string> first_calls_;
  Status fault_ GUARDED_BY(mutex_);
  std::string faulty_ GUARDED_BY(mutex_);
  Source source_;
  StoreKeeper keeper_;
};

// Fails if the row that says in which boot the rows were written is not with the first of them.
TEST_F(StoreKeeperTest, TheFirstRowsHaveTheContents) {
  EXPECT_EQ(first_calls_, (std::vector<std::string>{"sync", "write"}));
  Random random(1);
  disk_.LosePower(&random);
  EXPECT_EQ(disk_.rows().at({StoredKind::kContents, 0}), "contents");
  EXPECT_TRUE(disk_.rows().contains({StoredKind::kDatabase, 1}));
}

// Fails if an answer is given before the change is in the file, or if a change that only has to
// outlive the process waits for a sync.
TEST_F(StoreKeeperTest, AnswersWhenItIsStored) {
  source_.Set(5);
  ASSERT_OK(Await(/*persisted=*/false));
  EXPECT_EQ(StoredValue(), 5u);
  ASSERT_OK(Await(/*persisted=*/true));
  Random random(1);
  disk_.LosePower(&random);
  EXPECT_EQ(StoredValue(), 5u);
}

// Fails if a manifest is written before the bytes that it names were synchronised, or without being
// synchronised itself: a power failure would leave it without its tables.
TEST_F(StoreKeeperTest, BytesArePersistedBeforeTheManifest) {
  source_.PutManifest();
  ASSERT_OK(Await(/*persisted=*/false));
  const std::vector<std::string> calls = TakeCalls();
  ASSERT_EQ(calls, (std::vector<std::string>{"sync", "write"}));
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Random random(seed);
    disk_.LosePower(&random);
    EXPECT_TRUE(disk_.rows().contains({StoredKind::kManifest, 1}));
  }
}

// Fails if what was noted is not persisted unless somebody asks for it, or is told to be before.
TEST_F(StoreKeeperTest, WhatNobodyWaitsForIsPersistedSoon) {
  source_.Set(6);
  const uint64_t change = keeper_.change();
  EXPECT_TRUE(Eventually([&] { return source_.persisted() >= change; }));
  Random random(1);
  disk_.LosePower(&random);
  EXPECT_EQ(StoredValue(), 6u);
}

// Fails if a full disk loses a change, or is taken for a broken one.
TEST_F(StoreKeeperTest, AFullDiskIsTriedAgain) {
  Fail(Status::Busy("the disk is full"), "write");
  source_.Set(7);
  EXPECT_TRUE(Eventually([&] { return keeper_.Check().IsBusy(); }));
  EXPECT_NE(StoredValue(), 7u);
  Fail(Status::OK());
  ASSERT_OK(Await(/*persisted=*/true));
  EXPECT_EQ(StoredValue(), 7u);
  EXPECT_OK(keeper_.Check());
}

// Fails if an error of the disk is forgotten when the disk works again: what the kernel could not
// write is gone from its cache, and a sync that succeeds afterwards says nothing of it.
TEST_F(StoreKeeperTest, AnErrorStays) {
  Fail(Status::IOError("a bad block"));
  source_.Set(8);
  const Status failed = Await(/*persisted=*/false);
  ASSERT_TRUE(failed.IsIOError());
  EXPECT_THAT(failed.ToString(), HasSubstr("a bad block"));
  EXPECT_THAT(failed.ToString(), HasSubstr("start it again"));
  Fail(Status::OK());
  TakeCalls();
  EXPECT_TRUE(Await(/*persisted=*/true).IsIOError());
  EXPECT_TRUE(Persist({{NodeId{}, RegionId{}, 0, 64}}).IsIOError());
  EXPECT_EQ(TakeCalls(), std::vector<std::string>());
}

// Fails if a sync for which the disk had no room is tried again and believed.
TEST_F(StoreKeeperTest, ASyncOnAFullDiskIsFinal) {
  Fail(Status::Busy("the disk is full"), "sync");
  source_.PutManifest();
  EXPECT_TRUE(Await(/*persisted=*/true).IsIOError());
  Fail(Status::OK());
  EXPECT_TRUE(keeper_.Check().IsIOError());
}

// Fails if a memory node that closes tells a log that its disk has failed.
TEST_F(StoreKeeperTest, ClosingIsNoFailureOfTheDisk) {
  keeper_.Stop();
  EXPECT_TRUE(Persist({{NodeId{}, RegionId{}, 0, 64}}).IsTimedOut());
}

// Fails if a sync of a log's bytes that failed is answered as if it had not, or asked for again.
TEST_F(StoreKeeperTest, ASyncThatFailsIsNotTriedAgain) {
  Fail(Status::IOError("a bad block"));
  EXPECT_TRUE(Persist({{NodeId{}, RegionId{}, 0, 64}}).IsIOError());
  Fail(Status::OK());
  TakeCalls();
  EXPECT_TRUE(Persist({{NodeId{}, RegionId{}, 0, 64}}).IsIOError());
  EXPECT_EQ(TakeCalls(), std::vector<std::string>());
  source_.Set(9);
  EXPECT_TRUE(Await(/*persisted=*/false).IsIOError());
}

// Fails if bytes of a span are told to be persisted and are not.
TEST_F(StoreKeeperTest, SpansArePersisted) {
  disk_.data()[5000] = 'x';
  disk_.data()[60000] = 'y';
  ASSERT_OK(Persist({{NodeId{}, RegionId{}, 5000, 1}, {NodeId{}, RegionId{}, 60000, 1}}));
  Random random(1);
  disk_.LosePower(&random);
  EXPECT_EQ(disk_.data()[5000], 'x');
  EXPECT_EQ(disk_.data()[60000], 'y');
}

// Fails if a change of just before the end is lost, or a caller that waits is not answered.
TEST_F(StoreKeeperTest, TheEndPersistsAll) {
  source_.Set(10);
  keeper_.Stop();
  Random random(1);
  disk_.LosePower(&random);
  EXPECT_EQ(StoredValue(), 10u);
  source_.Set(11);
  EXPECT_TRUE(Await(/*persisted=*/false).IsIOError());
}

}  // namespace
}  // namespace dlsm
