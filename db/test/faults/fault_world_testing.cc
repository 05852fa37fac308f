#include "db/test/faults/fault_world_testing.h"

#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "dLSM/iterator.h"
#include "dLSM/write_batch.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

// What has been given back is gone soon: a memory node waits for a grace time, threads end.
constexpr auto kSoon = std::chrono::seconds(20);

template <typename Condition>
bool Soon(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + kSoon;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

size_t CountEntries(const char* folder) {
  std::error_code error;
  size_t count = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  return count;
}

std::string ThreadNames() {
  std::string names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/task", error), end;
       !error && entry != end; entry.increment(error)) {
    std::ifstream file(entry->path() / "comm");
    std::string name;
    std::getline(file, name);
    names += " " + name;
  }
  return names;
}

}  // namespace

// -------- VersionedKeys

std::string VersionedKeys::Key(uint32_t number) { return NumberedKey(uint64_t{number} * 37); }

std::string VersionedKeys::Value(uint32_t number, uint32_t version) {
  const std::string head = std::to_string(number) + "/" + std::to_string(version) + "/";
  return head + std::string(200 + number % 7 * 50, static_cast<char>('a' + version % 26));
}

Status VersionedKeys::Write(DB* db, uint32_t first, uint32_t count, uint32_t step) {
  WriteBatch batch;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t number = (first + i * step) % kKeys;
    batch.Put(Key(number), Value(number, ++keys_[number].started));
  }
  const Status status = db->Write(WriteOptions(), &batch);
  for (uint32_t i = 0; i < count && status.ok(); ++i) {
    Versions& key = keys_[(first + i * step) % kKeys];
    key.acknowledged = key.started;
  }
  return status;
}

Status VersionedKeys::PutAll(DB* db) {
  Status first_error;
  for (uint32_t number = 0; number < kKeys; ++number) {
    KeepFirstError(Put(db, number), &first_error);
  }
  return first_error;
}

void VersionedKeys::NoteFlushed() {
  for (Versions& key : keys_) key.durable = key.acknowledged;
}

void VersionedKeys::ForgetUnflushed() {
  for (Versions& key : keys_) key.acknowledged = key.durable;
}

void VersionedKeys::Check(uint32_t number, const Status& status, const std::string& value) const {
  const Versions& key = keys_[number];
  if (status.IsNotFound()) {
    EXPECT_EQ(key.acknowledged, 0u) << "key " << number << " is lost";
    return;
  }
  if (!status.ok()) return;
  for (uint32_t version = key.acknowledged; version <= key.started; ++version) {
    if (version > 0 && value == Value(number, version)) return;
  }
  ADD_FAILURE() << "key " << number << " is " << value.substr(0, 20) << "; versions "
                << key.acknowledged << " to " << key.started << " are possible";
}

Status VersionedKeys::Get(DB* db, uint32_t number, const ReadOptions& options) const {
  std::string value;
  const Status status = db->Get(options, Key(number), &value);
  Check(number, status, value);
  return status.IsNotFound() ? Status::OK() : status;
}

Status VersionedKeys::MultiGet(DB* db) const {
  std::vector<std::string> keys;
  for (uint32_t number = 0; number < kKeys; ++number) keys.push_back(Key(number));
  std::vector<std::string> values;
  const std::vector<Status> statuses =
      db->MultiGet(ReadOptions(), {keys.begin(), keys.end()}, &values);
  Status first_error;
  for (uint32_t number = 0; number < kKeys; ++number) {
    Check(number, statuses[number], values[number]);
    if (first_error.ok() && !statuses[number].IsNotFound()) first_error = statuses[number];
  }
  return first_error;
}

Status VersionedKeys::Scan(DB* db, bool forward) const {
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  forward ? iterator->SeekToFirst() : iterator->SeekToLast();
  uint32_t seen = 0;
  const auto next = [&] { return forward ? seen : kKeys - 1 - seen; };
  const auto skip_to = [&](const std::string& key) {
    for (; seen < kKeys && Key(next()) != key; ++seen) Check(next(), Status::NotFound(""), "");
  };
  for (; iterator->Valid(); forward ? iterator->Next() : iterator->Prev()) {
    if (iterator->key() == kMark) continue;
    skip_to(iterator->key().ToString());
    if (seen == kKeys) {
      ADD_FAILURE() << iterator->key().ToString() << " was never written, or came twice";
      return Status::OK();
    }
    Check(next(), Status::OK(), iterator->value().ToString());
    ++seen;
  }
  DLSM_RETURN_IF_ERROR(iterator->status());
  skip_to("");
  return Status::OK();
}

// -------- FaultWorld

ProcessUse ProcessUse::Now() {
  // ThreadSanitizer begins a thread of its own with the first one.
  std::thread([] {}).join();
  return ProcessUse{CountEntries("/proc/self/task"), CountEntries("/proc/self/fd")};
}

void ProcessUse::ExpectAgain() const {
  ProcessUse now;
  EXPECT_TRUE(Soon([&] {
    now = Now();
    return now.threads <= threads && now.descriptors <= descriptors;
  })) << now.threads
      << " threads, before " << threads << "; " << now.descriptors << " descriptors, before "
      << descriptors << ";" << ThreadNames();
}

FaultWorld::FaultWorld(TestNodes* nodes, const Options& options, std::string name)
    : nodes_(nodes), name_(std::move(name)), options_(options) {
  options_.fault_injector = faults_;
  faults_->HarmAll(true);
}

FaultWorld::~FaultWorld() {
  faults_->Clear();
  db_.reset();
  other_.reset();
  EXPECT_OK(DestroyDB(name_, options_));
  for (size_t i = 0; i < nodes_->size(); ++i) {
    TestNode& node = (*nodes_)[i];
    EXPECT_TRUE(Soon([&] { return node.used_bytes() == 0; }))
        << node.used_bytes() << " bytes are left at memory node " << i;
    EXPECT_OK(node.server().node().databases().CheckInvariants());
  }
  EXPECT_EQ(faults_->buffers(), 0) << "registered buffers";
}

Options FaultWorld::CleanOptions() const {
  Options options = options_;
  options.fault_injector = nullptr;
  return options;
}

Status FaultWorld::Open() { return DB::Open(options_, name_, &db_); }

Status FaultWorld::Close() {
  const Status status = db_->Close();
  db_.reset();
  status.ok() ? keys_.NoteFlushed() : keys_.ForgetUnflushed();
  return status;
}

void FaultWorld::ExpectWhole() {
  if (db_ == nullptr) {
    ASSERT_OK(Open());
  }
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again ? "opened again" : "once the fault is gone");
    for (uint32_t number = 0; number < VersionedKeys::kKeys; ++number) {
      ASSERT_OK(keys_.Get(db_.get(), number));
    }
    ASSERT_OK(keys_.Scan(db_.get(), /*forward=*/true));
    if (again) break;
    ASSERT_OK(keys_.Put(db_.get(), 3));
    ASSERT_OK(keys_.Write(db_.get(), 5, 10, 11));
    ASSERT_OK(db_->Flush(FlushOptions()));
    ASSERT_OK(Close());
    ASSERT_OK(Open());
  }
  ASSERT_OK(Close());
}

Status OpenIfClosed(FaultWorld* world) {
  return world->db() != nullptr ? Status::OK() : world->Open();
}

Status CompactAll(FaultWorld* world) {
  Status status = world->db()->CompactRange(nullptr, nullptr);
  KeepFirstError(world->db()->WaitForBackgroundWork(), &status);
  return status;
}

void ExpectExplained(const Status& status) {
  EXPECT_TRUE(status.ok() || status.IsIOError() || status.IsTimedOut() || status.IsBusy() ||
              status.IsAborted())
      << status.ToString();
  EXPECT_TRUE(status.ok() || !status.message().empty());
}

}  // namespace dlsm
