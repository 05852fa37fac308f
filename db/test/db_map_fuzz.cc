// Random operations on a database, and the same on a std::map with its past: what they say differs
// never. The first bytes draw the options, the others operations.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dLSM/db.h"
#include "dLSM/iterator.h"
#include "dLSM/options.h"
#include "dLSM/pinnable_slice.h"
#include "dLSM/write_batch.h"
#include "db/test/map_source_testing.h"

namespace dlsm {
namespace {

using Model = std::map<std::string, std::string>;

void Expect(bool holds, const char* what, const std::string& detail = "") {
  if (holds) return;
  std::fprintf(stderr, "%s %s\n", what, detail.c_str());
  std::abort();
}

void ExpectOk(const Status& status) { Expect(status.ok(), "unexpected:", status.ToString()); }

class Game {
 public:
  explicit Game(FuzzedDataProvider* data) : data_(*data) {
    options_.create_if_missing = true;
    options_.embedded_memory_bytes = uint64_t{128} << 20;
    options_.write_buffer_size = size_t{64} << 10;
    options_.max_file_size = size_t{64} << 10;
    options_.level0_file_num_compaction_trigger = data_.ConsumeIntegralInRange(1, 3);
    options_.level0_stop_writes_trigger = 8;
    options_.max_bytes_for_level_base = uint64_t{32} << 10;
    options_.num_levels = data_.ConsumeIntegralInRange(2, 5);
    options_.max_tables_per_guard = data_.ConsumeIntegralInRange(2, 4);
    options_.guard_bits = data_.ConsumeIntegralInRange(1, 4);
    options_.compaction_style = data_.PickValueInArray(
        {CompactionStyle::kGuards, CompactionStyle::kLeveled, CompactionStyle::kLeveledChooseBest,
         CompactionStyle::kFullLeveling, CompactionStyle::kTiered, CompactionStyle::kSizeTiered});
    options_.table_format =
        data_.PickValueInArray({TableFormat::kByteAddressable, TableFormat::kBlockBased});
    options_.block_size = 256;
    if (data_.ConsumeBool()) options_.shard_boundaries = {Key(60)};
    if (data_.ConsumeBool()) {
      options_.memory_budget = options_.write_buffer_size * 4 + (size_t{9} << 20);
    }
    if (data_.ConsumeBool()) options_.value_cache_size = uint64_t{64} << 10;
    Open();
  }
  ~Game() {
    ReleaseSnapshots();
    ExpectOk(db_->Close());
    db_.reset();
    ExpectOk(DestroyDB(kName, options_));
  }

  void Play() {
    constexpr int kMovesMax = 400;
    for (int move = 0; move < kMovesMax && data_.remaining_bytes() > 0; ++move) Move();
    CheckAll(ReadOptions(), model_);
  }

 private:
  static constexpr const char* kName = "map";

  struct Past {
    const Snapshot* snapshot;
    Model model;
  };

  static std::string Key(int number) {
    // Of different lengths, and some the beginnings of others.
    std::string key = "k" + std::to_string(100 + number);
    if (number % 7 == 0) key.resize(3);
    if (number % 5 == 0) key += std::string(static_cast<size_t>(number % 30), 'x');
    if (number == 0) key = "";
    return key;
  }
  std::string AnyKey() { return Key(data_.ConsumeIntegralInRange(0, 120)); }
  std::string AnyValue() {
    const auto bytes = data_.PickValueInArray<size_t>({0, 1, 20, 400, 3000, 20000});
    return std::string(bytes, static_cast<char>('a' + data_.ConsumeIntegralInRange(0, 25)));
  }

  void Open() { ExpectOk(DB::Open(options_, kName, &db_)); }
  void ReleaseSnapshots() {
    for (const Past& past : pasts_) db_->ReleaseSnapshot(past.snapshot);
    pasts_.clear();
  }

  void Move() {
    switch (data_.ConsumeIntegralInRange(0, 14)) {
      case 0:
      case 1:
      case 2:
        return Put();
      case 3:
        return Delete();
      case 4:
        return Write();
      case 5:
        return CheckKey(ReadOptions(), model_, AnyKey());
      case 6:
        return CheckMany();
      case 7:
        return Walk();
      case 8:
        return ReadThePast();
      case 9:
        pasts_.push_back({db_->GetSnapshot(), model_});
        return;
      case 10:
        return ExpectOk(db_->Flush(FlushOptions()));
      case 11:
        return Compact();
      case 12:
        return DeleteRange();
      case 13:
        return Ingest();
      default:
        return Reopen();
    }
  }

  void Put() {
    const std::string key = AnyKey();
    std::string value = AnyValue();
    ExpectOk(db_->Put(WriteOptions(), key, value));
    model_[key] = std::move(value);
  }
  void Ingest() {
    std::map<std::string, std::string> entries;
    for (int i = data_.ConsumeIntegralInRange(0, 20); i > 0; --i) entries[AnyKey()] = AnyValue();
    MapSource source(entries);
    ExpectOk(db_->IngestSorted(&source, nullptr));
    for (auto& [key, value] : entries) model_[key] = value;
  }
  void Delete() {
    const std::string key = AnyKey();
    ExpectOk(db_->Delete(WriteOptions(), key));
    model_.erase(key);
  }
  void DeleteRange() {
    WriteBatch batch;
    DeleteRange(&batch);
    ExpectOk(db_->Write(WriteOptions(), &batch));
  }
  void DeleteRange(WriteBatch* batch) {
    std::string begin = AnyKey();
    std::string end = AnyKey();
    if (end < begin) std::swap(begin, end);
    batch->DeleteRange(begin, end);
    model_.erase(model_.lower_bound(begin), model_.lower_bound(end));
  }
  void Write() {
    WriteBatch batch;
    for (int i = data_.ConsumeIntegralInRange(0, 20); i > 0; --i) {
      const std::string key = AnyKey();
      if (data_.ConsumeIntegralInRange(0, 15) == 0) {
        DeleteRange(&batch);
      } else if (data_.ConsumeBool()) {
        batch.Delete(key);
        model_.erase(key);
      } else {
        std::string value = AnyValue();
        batch.Put(key, value);
        model_[key] = std::move(value);
      }
    }
    ExpectOk(db_->Write(WriteOptions(), &batch));
  }
  void Compact() {
    std::string begin = AnyKey();
    std::string end = AnyKey();
    if (end < begin) std::swap(begin, end);
    const Slice from(begin);
    const Slice to(end);
    ExpectOk(db_->CompactRange(data_.ConsumeBool() ? nullptr : &from,
                               data_.ConsumeBool() ? nullptr : &to));
  }
  void Reopen() {
    ReleaseSnapshots();
    ExpectOk(db_->Close());
    Open();
  }

  void CheckKey(const ReadOptions& options, const Model& model, const std::string& key) {
    std::string value;
    const Status status = db_->Get(options, key, &value);
    const auto found = model.find(key);
    if (found == model.end()) {
      Expect(status.IsNotFound(), "found what is not there:", key);
    } else {
      Expect(status.ok() && value == found->second, "lost or wrong:", key);
    }
  }
  void CheckMany() {
    std::vector<std::string> names;
    for (int i = data_.ConsumeIntegralInRange(0, 12); i > 0; --i) names.push_back(AnyKey());
    const std::vector<Slice> keys(names.begin(), names.end());
    std::vector<std::string> values;
    const std::vector<Status> statuses = db_->MultiGet(ReadOptions(), keys, &values);
    std::vector<PinnableSlice> pinned(keys.size());
    std::vector<Status> of_pinned(keys.size());
    db_->MultiGet(ReadOptions(), keys.size(), keys.data(), pinned.data(), of_pinned.data());
    for (size_t i = 0; i < names.size(); ++i) {
      Expect(of_pinned[i].code() == statuses[i].code() && pinned[i].ToString() == values[i],
             "MultiGet pins another value of:", names[i]);
      const auto found = model_.find(names[i]);
      if (found == model_.end()) {
        Expect(statuses[i].IsNotFound(), "MultiGet found what is not there:", names[i]);
      } else {
        Expect(statuses[i].ok() && values[i] == found->second, "MultiGet lost:", names[i]);
      }
    }
  }
  void ReadThePast() {
    if (pasts_.empty()) return;
    const size_t at = data_.ConsumeIntegralInRange<size_t>(0, pasts_.size() - 1);
    ReadOptions options;
    options.snapshot = pasts_[at].snapshot;
    CheckKey(options, pasts_[at].model, AnyKey());
    if (data_.ConsumeBool()) CheckAll(options, pasts_[at].model);
    if (data_.ConsumeBool()) return;
    db_->ReleaseSnapshot(pasts_[at].snapshot);
    pasts_.erase(pasts_.begin() + static_cast<ptrdiff_t>(at));
  }
  void CheckAll(const ReadOptions& options, const Model& model) {
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(options));
    iterator->SeekToFirst();
    for (const auto& [key, value] : model) {
      Expect(
          iterator->Valid() && iterator->key() == Slice(key) && iterator->value() == Slice(value),
          "an iterator is not at:", key);
      iterator->Next();
    }
    Expect(!iterator->Valid(), "an iterator goes on behind the last key");
    ExpectOk(iterator->status());
  }

  void CheckAt(const Iterator& iterator, Model::const_iterator at) {
    if (at == model_.end()) return Expect(!iterator.Valid(), "an iterator is somewhere");
    Expect(iterator.Valid() && iterator.key() == Slice(at->first) &&
               iterator.value() == Slice(at->second),
           "an iterator is not at:", at->first);
  }
  // To and fro, with seeks in between.
  void Walk() {
    const std::unique_ptr<Iterator> iterator(db_->NewIterator(ReadOptions()));
    Model::const_iterator at = model_.end();
    for (int step = data_.ConsumeIntegralInRange(1, 30); step > 0; --step) {
      const int kind = data_.ConsumeIntegralInRange(0, 4);
      if (kind == 0 || at == model_.end()) {
        const std::string key = AnyKey();
        iterator->Seek(key);
        at = model_.lower_bound(key);
      } else if (kind <= 2) {
        iterator->Next();
        ++at;
      } else {
        iterator->Prev();
        at = at == model_.begin() ? model_.end() : std::prev(at);
      }
      CheckAt(*iterator, at);
    }
    ExpectOk(iterator->status());
  }

  FuzzedDataProvider& data_;
  Options options_;
  std::unique_ptr<DB> db_;
  Model model_;
  std::vector<Past> pasts_;
};

}  // namespace
}  // namespace dlsm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider provider(data, size);
  dlsm::Game(&provider).Play();
  return 0;
}
