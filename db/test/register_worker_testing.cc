#include "db/test/register_worker_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "dLSM/pinnable_slice.h"

namespace dlsm {
namespace {

constexpr uint32_t kGroups = RegisterLayout::kGroups;
constexpr uint32_t kSingles = RegisterLayout::kSingles;
constexpr uint32_t kRegisters = RegisterLayout::kRegisters;
constexpr size_t kRegisterKeys = RegisterLayout::kKeys;

std::string KeyAt(uint32_t first_byte, const std::string& rest) {
  return static_cast<char>(first_byte) + rest;
}

// Of different lengths, so that one value over another shows.
std::string RegisterValue(uint64_t value) {
  std::string text = std::to_string(value) + ":";
  text.resize(20 + SplitMix64(value) % 1200, static_cast<char>('a' + value % 26));
  return text;
}

}  // namespace

RegisterLayout::RegisterLayout() {
  std::map<std::string, uint32_t> keys;
  for (uint32_t group = 0; group < kGroups; ++group) {
    for (uint32_t i = 0; i < kKeysOfGroup; ++i) {
      keys[KeyAt(256 * i / kKeysOfGroup + 3 * group, "group" + std::to_string(group))] = group;
    }
  }
  for (uint32_t i = 0; i < kSingles; ++i) {
    keys[KeyAt(256 * i / kSingles + 25, "single")] = kGroups + i;
  }
  for (const auto& [key, register_index] : keys) {
    keys_of_[register_index].push_back(keys_.size());
    registers_.push_back(register_index);
    keys_.push_back(key);
  }
}

std::optional<size_t> RegisterLayout::Find(const std::string& key) const {
  const auto place = std::ranges::lower_bound(keys_, key);
  if (place == keys_.end() || *place != key) return std::nullopt;
  return static_cast<size_t>(place - keys_.begin());
}

void RegisterWorker::Step() {
  const uint64_t dice = random_.Uniform(100);
  if (dice < 20) {
    WriteSingle();
  } else if (dice < 43) {
    WriteGroups();
  } else if (dice < 45) {
    WriteAll();
  } else if (dice < 70) {
    GetSome();
  } else if (dice < 80) {
    MultiGetSome();
  } else if (dice < 90) {
    Iterate();
  } else {
    UseSnapshot();
  }
}

void RegisterWorker::ReadAll() {
  for (uint32_t i = 0; i < kRegisters; ++i) GetRegister(i);
  for (int i = 0; i < 4; ++i) {
    MultiGetSome();
    Iterate();
    UseSnapshot();
  }
  LetGo();
}

void RegisterWorker::LetGo() {
  iterator_.reset();
  if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
  snapshot_ = nullptr;
}

uint64_t RegisterWorker::NewValue() {
  next_value_ += value_step_;
  return next_value_ - value_step_;
}

void RegisterWorker::NoteError(const Status& status) {
  if (!may_fail_) ADD_FAILURE() << status.ToString();
}

void RegisterWorker::WriteSingle() {
  const auto register_index = static_cast<uint32_t>(kGroups + random_.Uniform(kSingles));
  const std::string& key = layout_.key(layout_.KeysOf(register_index).front());
  const uint64_t value = random_.OneIn(4) ? kNoValue : NewValue();
  const std::string bytes = RegisterValue(value);
  WriteBatch batch;
  const bool batched = random_.OneIn(3);
  if (batched) {
    batch.Put(key, RegisterValue(NewValue()));
    AddTo(&batch, register_index, value);
  }
  const Tick called = log_.Now();
  if (batched) {
    NoteWrite("Write", called, db_->Write(WriteOptions(), &batch), {{register_index, value}});
  } else if (value == kNoValue && random_.OneIn(2)) {
    NoteWrite("DeleteRange", called, db_->DeleteRange(WriteOptions(), key, key + '\0'),
              {{register_index, value}});
  } else if (value == kNoValue) {
    NoteWrite("Delete", called, db_->Delete(WriteOptions(), key), {{register_index, value}});
  } else {
    NoteWrite("Put", called, db_->Put(WriteOptions(), key, bytes), {{register_index, value}});
  }
  if (random_.OneIn(2)) GetRegister(register_index);
}

void RegisterWorker::AddTo(WriteBatch* batch, uint32_t register_index, uint64_t value) {
  for (const size_t key_index : layout_.KeysOf(register_index)) {
    const std::string& key = layout_.key(key_index);
    if (random_.OneIn(8)) batch->Delete(key);
    if (random_.OneIn(8)) batch->DeleteRange(key, key + '\0');
    if (random_.OneIn(8)) batch->Put(key, RegisterValue(NewValue()));
    value == kNoValue ? batch->Delete(key) : batch->Put(key, RegisterValue(value));
  }
}

void RegisterWorker::WriteGroups() {
  std::vector<uint32_t> written = {static_cast<uint32_t>(random_.Uniform(kGroups))};
  if (random_.OneIn(3)) written.push_back((written.front() + 1) % kGroups);
  if (random_.OneIn(3)) {
    written.push_back(static_cast<uint32_t>(kGroups + random_.Uniform(kSingles)));
  }
  WriteBatch batch;
  std::vector<Access> accesses;
  for (const uint32_t register_index : written) {
    // An outcome that is not known explains too much if anybody else may have deleted the same.
    const bool may_delete = !may_fail_ || written.size() == 1;
    const uint64_t value = may_delete && random_.OneIn(5) ? kNoValue : NewValue();
    AddTo(&batch, register_index, value);
    accesses.push_back({register_index, value});
  }
  const Tick called = log_.Now();
  const Status status = db_->Write(WriteOptions(), &batch);
  NoteWrite("Write", called, status, std::move(accesses));
  if (random_.OneIn(2)) GetRegister(written.front());
}

void RegisterWorker::WriteAll() {
  if (may_fail_) return WriteGroups();  // An outcome that is not known would explain too much.
  std::vector<Access> accesses;
  for (uint32_t i = 0; i < kRegisters; ++i) accesses.push_back({i, kNoValue});
  WriteBatch batch;
  batch.DeleteRange(Slice(), std::string(3, '\xff'));
  if (random_.OneIn(2)) {
    Access& kept = accesses[random_.Uniform(kRegisters)];
    kept.value = NewValue();
    for (const size_t key_index : layout_.KeysOf(kept.register_index)) {
      batch.Put(layout_.key(key_index), RegisterValue(kept.value));
    }
  }
  const Tick called = log_.Now();
  const Status status = db_->Write(WriteOptions(), &batch);
  NoteWrite("DeleteRange", called, status, std::move(accesses));
  if (random_.OneIn(2)) GetRegister(static_cast<uint32_t>(random_.Uniform(kRegisters)));
}

void RegisterWorker::NoteWrite(const char* name, Tick called, const Status& status,
                               std::vector<Access> accesses) {
  const Tick returned = log_.Now();
  if (!status.ok()) NoteError(status);
  log_.Add({.kind = Operation::Kind::kWrite,
            .name = name,
            .called = called,
            .returned = status.ok() ? returned : kNever,
            .accesses = std::move(accesses)});
}

void RegisterWorker::GetSome() {
  const auto register_index = static_cast<uint32_t>(random_.Uniform(kRegisters));
  for (uint64_t i = random_.Uniform(8); i > 0; --i) GetRegister(register_index);
}

void RegisterWorker::GetRegister(uint32_t register_index) {
  const std::vector<size_t>& keys = layout_.KeysOf(register_index);
  const size_t key = keys[random_.Uniform(keys.size())];
  Observation seen(kRegisterKeys);
  const Tick called = log_.Now();
  if (!Get(ReadOptions(), key, &seen)) return;
  const Tick returned = log_.Now();
  log_.Add({.kind = Operation::Kind::kRead,
            .name = "Get",
            .called = called,
            .returned = returned,
            .accesses = {{register_index, *seen[key]}},
            .ordered_per_register = true});
}

bool RegisterWorker::Get(const ReadOptions& options, size_t key, Observation* seen) {
  Status status;
  if (random_.OneIn(2)) {
    std::string value;
    status = db_->Get(options, layout_.key(key), &value);
    return See(key, status, value, seen);
  }
  PinnableSlice value;
  status = db_->Get(options, layout_.key(key), &value);
  return See(key, status, value, seen);
}

bool RegisterWorker::See(size_t key, const Status& status, const Slice& value, Observation* seen) {
  if (status.IsNotFound()) {
    (*seen)[key] = kNoValue;
    return true;
  }
  if (!status.ok()) {
    NoteError(status);
    return false;
  }
  const std::string text = value.ToString();
  const uint64_t number = std::strtoull(text.c_str(), nullptr, 10);
  EXPECT_EQ(text, RegisterValue(number)) << "damaged";
  (*seen)[key] = number;
  return true;
}

bool RegisterWorker::MultiGet(const ReadOptions& options, const std::vector<size_t>& keys,
                              Observation* seen) {
  std::vector<Slice> slices;
  for (const size_t key : keys) slices.push_back(layout_.key(key));
  std::vector<std::string> values(keys.size());
  std::vector<Status> statuses(keys.size());
  if (random_.OneIn(2)) {
    statuses = db_->MultiGet(options, slices, &values);
  } else {
    std::vector<PinnableSlice> pinned(keys.size());
    db_->MultiGet(options, keys.size(), slices.data(), pinned.data(), statuses.data());
    for (size_t i = 0; i < keys.size(); ++i) values[i] = pinned[i].ToString();
  }
  bool all = true;
  for (size_t i = 0; i < keys.size(); ++i) all &= See(keys[i], statuses[i], values[i], seen);
  return all;
}

std::vector<size_t> RegisterWorker::SomeKeys() {
  std::vector<size_t> keys;
  const bool all = random_.OneIn(2);
  for (uint32_t i = 0; i < kRegisters; ++i) {
    if (!all && random_.OneIn(2)) continue;
    const std::vector<size_t>& of_register = layout_.KeysOf(i);
    keys.insert(keys.end(), of_register.begin(), of_register.end());
  }
  std::shuffle(keys.begin(), keys.end(), random_);
  return keys;
}

void RegisterWorker::MultiGetSome() {
  const std::vector<size_t> keys = SomeKeys();
  Observation seen(kRegisterKeys);
  const Tick called = log_.Now();
  const bool all = MultiGet(ReadOptions(), keys, &seen);
  const Tick returned = log_.Now();
  if (all) NoteRead("MultiGet", called, returned, seen);
}

void RegisterWorker::Iterate() {
  if (iterator_ != nullptr) {
    Observation seen(kRegisterKeys);
    if (Walk(iterator_.get(), &seen)) {
      NoteRead("NewIterator", iterator_called_, iterator_returned_, seen);
    }
  }
  iterator_.reset();
  iterator_called_ = log_.Now();
  iterator_.reset(db_->NewIterator(ReadOptions()));
  iterator_returned_ = log_.Now();
}

bool RegisterWorker::Walk(Iterator* iterator, Observation* seen) {
  std::ranges::fill(*seen, kNoValue);
  const uint64_t way = random_.Uniform(3);
  if (way == 2) {
    // Each Seek starts afresh, errors included.
    bool all = true;
    for (size_t key = 0; key < kRegisterKeys; ++key) {
      iterator->Seek(layout_.key(key));
      all &= NoteEnd(*iterator);
      if (!iterator->Valid() || iterator->key() != Slice(layout_.key(key))) continue;
      (void)See(key, Status::OK(), iterator->value(), seen);
    }
    return all;
  }
  way == 0 ? iterator->SeekToFirst() : iterator->SeekToLast();
  while (iterator->Valid()) {
    const std::optional<size_t> key = layout_.Find(iterator->key().ToString());
    EXPECT_TRUE(key.has_value()) << "nobody has written this key";
    if (key.has_value()) (void)See(*key, Status::OK(), iterator->value(), seen);
    way == 0 ? iterator->Next() : iterator->Prev();
  }
  return NoteEnd(*iterator);
}

bool RegisterWorker::NoteEnd(const Iterator& iterator) {
  const Status status = iterator.status();
  if (!status.ok()) NoteError(status);
  return status.ok();
}

void RegisterWorker::UseSnapshot() {
  if (snapshot_ != nullptr) {
    Observation seen(kRegisterKeys);
    if (ReadAt(snapshot_, &seen)) {
      EXPECT_EQ(Differences(seen), "") << "the snapshot has changed";
    }
    db_->ReleaseSnapshot(snapshot_);
    snapshot_ = nullptr;
    return;
  }
  snapshot_seen_.assign(kRegisterKeys, std::nullopt);
  const Tick called = log_.Now();
  snapshot_ = db_->GetSnapshot();
  const Tick returned = log_.Now();
  if (ReadAt(snapshot_, &snapshot_seen_)) {
    NoteRead("GetSnapshot", called, returned, snapshot_seen_);
  } else {
    LetGo();
  }
}

bool RegisterWorker::ReadAt(const Snapshot* snapshot, Observation* seen) {
  ReadOptions options;
  options.snapshot = snapshot;
  std::vector<size_t> keys(kRegisterKeys);
  for (size_t i = 0; i < kRegisterKeys; ++i) keys[i] = i;
  std::shuffle(keys.begin(), keys.end(), random_);
  switch (random_.Uniform(3)) {
    case 0:
      return MultiGet(options, keys, seen);
    case 1: {
      const std::unique_ptr<Iterator> iterator(db_->NewIterator(options));
      return Walk(iterator.get(), seen);
    }
    default:
      return std::ranges::all_of(keys, [&](size_t key) { return Get(options, key, seen); });
  }
}

std::string RegisterWorker::Differences(const Observation& seen) const {
  std::string text;
  for (size_t key = 0; key < kRegisterKeys; ++key) {
    if (seen[key] == snapshot_seen_[key]) continue;
    text += "register " + std::to_string(layout_.RegisterOf(key)) + " was " +
            std::to_string(*snapshot_seen_[key]) + ", is " + std::to_string(*seen[key]) + "; ";
  }
  return text;
}

void RegisterWorker::NoteRead(const char* name, Tick called, Tick returned,
                              const Observation& seen) {
  Operation operation{.kind = Operation::Kind::kRead,
                      .name = name,
                      .called = called,
                      .returned = returned,
                      .accesses = {}};
  for (uint32_t i = 0; i < kRegisters; ++i) {
    const std::vector<size_t>& keys = layout_.KeysOf(i);
    if (!seen[keys.front()].has_value()) continue;
    const uint64_t value = *seen[keys.front()];
    for (const size_t key : keys) {
      EXPECT_EQ(*seen[key], value) << "a torn batch: " << name << " of register " << i;
    }
    operation.accesses.push_back({i, value});
  }
  if (!operation.accesses.empty()) log_.Add(std::move(operation));
}

}  // namespace dlsm
