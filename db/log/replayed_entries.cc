#include "db/log/replayed_entries.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "table/key_prefix.h"
#include "util/coding.h"
#include "util/run_jobs.h"

namespace dlsm {
namespace {

// So many keys of each piece are looked at when pieces are made.
constexpr size_t kSamplesPerPiece = 256;

}  // namespace

void ReplayedEntries::Begin(size_t parts) {
  parts_.clear();
  parts_.resize(parts);
}

void ReplayedEntries::Add(size_t part_number, SequenceNumber sequence, ValueType type,
                          const Slice& key, const Slice& value) {
  if (sequence < flushed_below_) return;
  Part& part = parts_[part_number];
  if (part.entries.empty()) {
    part.common = key.size();
  } else {
    const Slice first = part.entries.front().key();
    part.common = CommonPrefix(first.data(), key.data(), std::min(part.common, key.size()));
  }
  part.entries.push_back({0, PackTrailer(sequence, type), key.data(),
                          static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())});
  part.bytes += key.size() + value.size() + kTrailerBytes;
}

void ReplayedEntries::AddRange(size_t part, SequenceNumber sequence, const Slice& begin,
                               const Slice& end) {
  if (sequence < flushed_below_) return;
  parts_[part].tombstones.push_back({begin.ToString(), end.ToString(), sequence});
}

Status ReplayedEntries::End(size_t parts) {
  parts_.resize(std::min(parts, parts_.size()));
  tombstones_.clear();
  for (Part& part : parts_) {
    std::move(part.tombstones.begin(), part.tombstones.end(), std::back_inserter(tombstones_));
  }
  std::erase_if(parts_, [](const Part& part) { return part.entries.empty(); });
  count_ = 0;
  bytes_ = 0;
  if (parts_.empty()) return Status::OK();
  const Slice first = parts_.front().entries.front().key();
  common_ = first.size();
  for (const Part& part : parts_) {
    const Slice other = part.entries.front().key();
    common_ =
        std::min(common_, CommonPrefix(first.data(), other.data(), std::min(common_, part.common)));
    count_ += part.entries.size();
    bytes_ += part.bytes;
  }
  return RunJobs(parts_.size(), kPiecesMax, kNoMemory, [this](size_t part) {
    for (Entry& entry : parts_[part].entries) entry.digest = DigestOf(entry.key());
    return Status::OK();
  });
}

// The digests of an order that is the user's own say nothing.
uint64_t ReplayedEntries::DigestOf(const Slice& key) const {
  return comparator_.bytewise() ? Digest(After(key, common_)) : 0;
}

int ReplayedEntries::Compare(uint64_t a_digest, const Slice& a, uint64_t b_digest,
                             const Slice& b) const {
  if (a_digest != b_digest) return a_digest < b_digest ? -1 : 1;
  return comparator_.CompareUserKeys(a, b);
}

std::vector<Slice> ReplayedEntries::SplitKeys(uint64_t piece_bytes) const {
  const size_t pieces = std::min<uint64_t>(kPiecesMax, bytes_ / std::max<uint64_t>(1, piece_bytes));
  std::vector<Slice> splits;
  if (pieces <= 1) return splits;
  const size_t step = std::max<size_t>(1, count_ / (pieces * kSamplesPerPiece));
  std::vector<const Entry*> samples;
  for (const Part& part : parts_) {
    for (size_t i = 0; i < part.entries.size(); i += step) samples.push_back(&part.entries[i]);
  }
  std::sort(samples.begin(), samples.end(), [this](const Entry* a, const Entry* b) {
    return Compare(a->digest, a->key(), b->digest, b->key()) < 0;
  });
  for (size_t i = 1; i < pieces; ++i) {
    const Slice key = samples[samples.size() * i / pieces]->key();
    if (splits.empty() || comparator_.CompareUserKeys(splits.back(), key) < 0) {
      splits.push_back(key);
    }
  }
  return splits;
}

ReplayedEntries::Piece::Piece(const ReplayedEntries& entries, const Slice* from, const Slice* to) {
  // A bound is a key of an entry, so it has what all keys have in common.
  const uint64_t from_digest = from != nullptr ? entries.DigestOf(*from) : 0;
  const uint64_t to_digest = to != nullptr ? entries.DigestOf(*to) : 0;
  for (const Part& part : entries.parts_) {
    for (const Entry& entry : part.entries) {
      if (from != nullptr && entries.Compare(entry.digest, entry.key(), from_digest, *from) < 0) {
        continue;
      }
      if (to != nullptr && entries.Compare(entry.digest, entry.key(), to_digest, *to) >= 0) {
        continue;
      }
      sorted_.push_back(entry);
      bytes_ += entry.key_bytes + entry.value_bytes + kTrailerBytes;
    }
  }
  std::sort(sorted_.begin(), sorted_.end(), [&entries](const Entry& a, const Entry& b) {
    const int order = entries.Compare(a.digest, a.key(), b.digest, b.key());
    return order != 0 ? order < 0 : a.trailer > b.trailer;
  });
}

bool ReplayedEntries::Piece::Next(Slice* internal_key, Slice* value) {
  // Neighbours in the order lie anywhere in the log: what comes soon is asked for now.
  constexpr size_t kAhead = 8;
  constexpr size_t kLineBytes = 64;
  constexpr uint32_t kBytesAhead = 1024;
  if (next_ == sorted_.size()) return false;
  if (next_ + kAhead < sorted_.size()) {
    const Entry& soon = sorted_[next_ + kAhead];
    const uint32_t bytes = std::min(soon.key_bytes + soon.value_bytes, kBytesAhead);
    for (uint32_t i = 0; i < bytes; i += kLineBytes) __builtin_prefetch(soon.user_key + i);
  }
  const Entry& entry = sorted_[next_];
  std::string& key = keys_[next_ % 2];
  key.assign(entry.user_key, entry.key_bytes);
  PutFixed64(&key, entry.trailer);
  *internal_key = key;
  *value = Slice();
  if (entry.value_bytes > 0) {
    *value =
        Slice(entry.user_key + entry.key_bytes + VarintBytes(entry.value_bytes), entry.value_bytes);
  }
  ++next_;
  return true;
}

}  // namespace dlsm
