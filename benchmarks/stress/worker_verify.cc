// What a worker verifies: all keys at once, of an owner or of a follower.
#include <fmt/core.h>

#include <optional>

#include "benchmarks/stress/worker.h"
#include "dLSM/iterator.h"
#include "util/status_macros.h"

namespace dlsm::stress {

Status Worker::VerifyAll(DB* db) {
  last_ = "verification of all keys";
  torn_groups_.clear();
  Window window(space_->count());
  SetLeast(0, &window);
  const std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  SetMost(0, &window);
  std::vector<std::vector<uint32_t>> versions;
  return VerifyBy(iterator.get(), window, &versions);
}

Status Worker::VerifyFollower(DB* follower, std::vector<uint32_t>* floor) {
  const std::unique_ptr<Iterator> iterator(follower->NewIterator(ReadOptions()));
  Window window(space_->count());
  for (uint64_t key = 0; key < window.size(); ++key) window[key].least = (*floor)[key];
  SetMost(0, &window);
  std::vector<std::vector<uint32_t>> versions;
  DLSM_RETURN_IF_ERROR(VerifyBy(iterator.get(), window, &versions));
  for (uint64_t key = 0; key < window.size(); ++key) (*floor)[key] = versions[key].front();
  return Status::OK();
}

Status Worker::VerifyBy(Iterator* iterator, const Window& window,
                        std::vector<std::vector<uint32_t>>* versions) {
  std::vector<Observation> all(space_->count());
  for (uint64_t key = 0; key < all.size(); ++key) all[key].key = key;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const std::optional<uint64_t> key = space_->KeyFromBytes(iterator->key());
    if (!key.has_value()) return Status::Corruption("there is a key that was never written");
    if (all[*key].found) return Status::Corruption(fmt::format("key {} is there twice", *key));
    all[*key].found = true;
    all[*key].value = iterator->value().ToString();
  }
  DLSM_RETURN_IF_ERROR(iterator->status());
  versions->resize(all.size());
  for (uint64_t key = 0; key < all.size(); ++key) {
    DLSM_RETURN_IF_ERROR(Check(all[key], window[key], &(*versions)[key]));
  }
  for (uint64_t group = 0; group < space_->groups(); group += 2) {
    std::vector<std::vector<uint32_t>> of_group;
    for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
      of_group.push_back((*versions)[space_->KeyOf(group, i)]);
    }
    const Status whole = CheckGroup(group, of_group);
    if (whole.ok()) continue;
    if (!tolerate_torn_) return whole;
    torn_groups_.push_back(group);
  }
  return Status::OK();
}

}  // namespace dlsm::stress
