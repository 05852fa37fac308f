#include "script/tool/ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "script/tool/entry_codec.h"
#include "util/escape.h"
#include "util/hash.h"

namespace dlsm::tool {

namespace {

Status Differs(const Slice& key, std::string_view how) {
  std::string escaped;
  AppendEscaped(&escaped, Slice(key.data(), std::min<size_t>(key.size(), 100)));
  return Status::Corruption(fmt::format("key '{}' {}", escaped, how));
}

}  // namespace

void Ledger::Put(const Slice& key, const Slice& value) { expected_[Hash64(key)] = Hash64(value); }

void Ledger::Delete(const Slice& key) { expected_[Hash64(key)] = std::nullopt; }

Status Ledger::See(const Slice& key, const Slice& value) {
  const auto found = expected_.find(Hash64(key));
  if (found == expected_.end()) return Status::OK();
  if (!found->second.has_value()) return Differs(key, "is there, but this command deleted it");
  if (*found->second != Hash64(value)) return Differs(key, "has not the value that was written");
  ++seen_;
  return Status::OK();
}

Status Ledger::Finish() const {
  const uint64_t expected = keys();
  if (seen_ == expected) return Status::OK();
  return Status::Corruption(fmt::format("{} of the {} keys that this command wrote are missing",
                                        expected - seen_, expected));
}

uint64_t Ledger::keys() const {
  return static_cast<uint64_t>(
      std::count_if(expected_.begin(), expected_.end(),
                    [](const auto& entry) { return entry.second.has_value(); }));
}

}  // namespace dlsm::tool
