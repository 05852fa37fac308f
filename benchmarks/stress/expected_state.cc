#include "benchmarks/stress/expected_state.h"

#include <fmt/core.h>

#include <algorithm>

namespace dlsm::stress {

uint32_t ExpectedState::StartGroup(const KeySpace& space, uint64_t group) {
  uint32_t version = 0;
  for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
    version = std::max(version, started(space.KeyOf(group, i)) + 1);
  }
  for (uint64_t i = 0; i < KeySpace::kGroupKeys; ++i) {
    keys_[space.KeyOf(group, i)].started.store(version, std::memory_order_release);
  }
  return version;
}

std::vector<uint32_t> ExpectedState::All(std::atomic<uint32_t> Key::*versions) const {
  std::vector<uint32_t> all(count_);
  for (uint64_t key = 0; key < count_; ++key) {
    all[key] = (keys_[key].*versions).load(std::memory_order_acquire);
  }
  return all;
}

std::vector<uint32_t> ExpectedState::AllAcknowledged() const { return All(&Key::acknowledged); }
std::vector<uint32_t> ExpectedState::AllDurable() const { return All(&Key::durable); }
std::vector<uint32_t> ExpectedState::AllPersisted() const { return All(&Key::persisted); }

void ExpectedState::Raise(std::atomic<uint32_t> Key::*versions, const std::vector<uint32_t>& to) {
  for (uint64_t key = 0; key < count_; ++key) {
    // Flushes of several threads overlap.
    std::atomic<uint32_t>& version = keys_[key].*versions;
    uint32_t before = version.load(std::memory_order_relaxed);
    while (before < to[key] &&
           !version.compare_exchange_weak(before, to[key], std::memory_order_acq_rel)) {
    }
  }
}

void ExpectedState::SetDurable(const std::vector<uint32_t>& acknowledged) {
  Raise(&Key::durable, acknowledged);
}

void ExpectedState::SetPersisted(const std::vector<uint32_t>& acknowledged) {
  SetDurable(acknowledged);
  Raise(&Key::persisted, acknowledged);
}

void ExpectedState::ForgetUndurable() {
  for (uint64_t key = 0; key < count_; ++key) {
    keys_[key].acknowledged.store(keys_[key].durable.load(std::memory_order_acquire),
                                  std::memory_order_release);
  }
}

void ExpectedState::ForgetUnpersisted() {
  for (uint64_t key = 0; key < count_; ++key) {
    keys_[key].durable.store(keys_[key].persisted.load(std::memory_order_acquire),
                             std::memory_order_release);
  }
  ForgetUndurable();
}

Status CheckObservation(const KeySpace& space, const Observation& observation,
                        const VersionRange& range, std::vector<uint32_t>* versions) {
  if (versions != nullptr) versions->clear();
  const auto wrong = [&](const std::string& what) {
    return Status::Corruption(
        fmt::format("key {} ({}) {}; versions {} to {} are possible", observation.key,
                    space.KeyBytes(observation.key).substr(0, 8), what, range.least, range.most));
  };
  if (observation.found) {
    const std::optional<uint32_t> version =
        space.VersionFromBytes(observation.key, observation.value);
    if (!version.has_value()) {
      return wrong(fmt::format("has a value of no version, {} bytes beginning '{}'",
                               observation.value.size(), observation.value.substr(0, 40)));
    }
    if (*version < range.least || *version > range.most) {
      return wrong(fmt::format("has version {}", *version));
    }
    if (versions != nullptr) versions->push_back(*version);
    return Status::OK();
  }
  bool deleted = false;
  for (uint32_t version = range.least; version <= range.most; ++version) {
    if (!space.IsDeletion(observation.key, version)) continue;
    deleted = true;
    if (versions == nullptr) break;
    versions->push_back(version);
  }
  return deleted ? Status::OK() : wrong("is not there, and none of its versions is a deletion");
}

Status CheckGroup(uint64_t group, const std::vector<std::vector<uint32_t>>& versions) {
  std::vector<uint32_t> common = versions.front();
  for (const std::vector<uint32_t>& others : versions) {
    std::erase_if(common, [&others](uint32_t version) {
      return !std::binary_search(others.begin(), others.end(), version);
    });
  }
  if (!common.empty()) return Status::OK();
  std::string seen;
  for (const std::vector<uint32_t>& of_key : versions) {
    seen += fmt::format(" {}", of_key.size() == 1 ? std::to_string(of_key[0]) : "deleted");
  }
  return Status::Corruption(
      fmt::format("the batch of group {} is torn: its keys have versions{}", group, seen));
}

}  // namespace dlsm::stress
