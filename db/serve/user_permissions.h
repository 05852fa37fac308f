// What a user may do now, as the sessions of that user see it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "db/serve/acl_rules.h"

namespace dlsm::serve {

// Any thread may ask while another changes it: a command that is looked at meanwhile is judged by
// what was or by what is.
class UserPermissions {
 public:
  explicit UserPermissions(std::string name) : name_(std::move(name)) {}
  UserPermissions(const UserPermissions&) = delete;
  UserPermissions& operator=(const UserPermissions&) = delete;

  const std::string& name() const { return name_; }
  // Relaxed is enough: a bit says nothing of other memory.
  bool MayRun(size_t command_number) const {
    const uint64_t word = words_[command_number / 64].load(std::memory_order_relaxed);
    return ((word >> (command_number % 64)) & 1) != 0;
  }
  bool has_keys() const { return has_keys_.load(std::memory_order_relaxed); }
  // Returns true if there is no such user any more: its connections are to be closed.
  bool is_gone() const { return is_gone_.load(std::memory_order_relaxed); }

  // By one thread at a time.
  void Set(const AclRules& rules) {
    constexpr CommandSet kWord(~uint64_t{0});
    for (size_t i = 0; i < words_.size(); ++i) {
      words_[i].store(((rules.allowed >> (64 * i)) & kWord).to_ullong(), std::memory_order_relaxed);
    }
    has_keys_.store(rules.all_keys, std::memory_order_relaxed);
  }
  void SetGone() {
    Set(AclRules());
    is_gone_.store(true, std::memory_order_relaxed);
  }

 private:
  const std::string name_;
  std::array<std::atomic<uint64_t>, kCommandNumbers / 64> words_{};
  std::atomic<bool> has_keys_{false};
  std::atomic<bool> is_gone_{false};
};

}  // namespace dlsm::serve
