#include <algorithm>
#include <cassert>

#include "table/byte_table_index.h"
#include "table/byte_table_index_format.h"
#include "table/key_prefix.h"
#include "util/checksum.h"
#include "util/coding.h"

namespace dlsm {

using namespace byte_table_index;  // NOLINT: the constants of this format.

void ByteTableIndexBuilder::Add(const Slice& last_key, const Slice& internal_key, uint64_t hash,
                                bool same, uint64_t offset, uint32_t record_bytes) {
  assert(offset <= kByteTableDataBytesMax);
  const Slice user_key = ExtractUserKey(internal_key);
  const bool first = entries_ == 0;
  assert(!first || !same);
  assert(first == last_key.empty());
  const bool whole = first || same || whole_keys_;
  const size_t shared = whole ? 0 : CommonPrefix(ExtractUserKey(last_key), user_key);
  // Bytewise, a greater key has a byte where it first differs from the one before.
  assert(whole || shared < user_key.size());
  size_t separator_bytes = whole ? user_key.size() : shared + 1;
  if (first && !whole_keys_) separator_bytes = std::min(separator_bytes, kFirstSeparatorBytes);
  const size_t ordinal = entries_ % kGroupRecords;
  if (!first && !same && !whole_keys_ && ++later_keys_ == 1 && entries_ < kGroupRecords) {
    LengthenFirstSeparator(shared + 1);
  }
  if (ordinal == 0) {
    StartGroup(user_key, separator_bytes, same, same ? ExtractTrailer(last_key) : 0, offset,
               record_bytes);
    last_separator_bytes_ = separator_bytes;
  } else if (same) {
    AddSame(record_bytes, ExtractTrailer(last_key));
  } else {
    AddSeparator(user_key, shared, separator_bytes, record_bytes);
    last_separator_bytes_ = separator_bytes;
  }
  Group& group = groups_.back();
  group.rest_end = rest_.size();
  group.uniform = group.uniform && record_bytes == group.record_bytes;
  if (!whole_keys_) group.fingerprints[ordinal] = Fingerprint(hash);
  if (first) first_key_.assign(user_key.data(), user_key.size());
  last_record_bytes_ = record_bytes;
  ++entries_;
}

// Before there is a separator beside it. So it has all that the table's keys have in common, and
// that is not repeated in each group.
void ByteTableIndexBuilder::LengthenFirstSeparator(size_t bytes) {
  bytes = std::min(bytes, first_key_.size());
  if (bytes <= separators_.size()) return;
  separators_.assign(first_key_, 0, bytes);
  groups_.front().separator_end = last_separator_bytes_ = bytes;
}

void ByteTableIndexBuilder::StartGroup(const Slice& user_key, size_t separator_bytes, bool same,
                                       uint64_t last_trailer, uint64_t offset,
                                       uint32_t record_bytes) {
  separators_.append(user_key.data(), separator_bytes);
  groups_.push_back(Group{.data_offset = static_cast<uint32_t>(offset),
                          .record_bytes = record_bytes,
                          .trailer = last_trailer,
                          .same = same,
                          .uniform = !whole_keys_,
                          .separator_end = separators_.size(),
                          .rest_end = rest_.size(),
                          .fingerprints = {}});
}

void ByteTableIndexBuilder::AddSame(uint32_t record_bytes, uint64_t last_trailer) {
  const bool differs = record_bytes != last_record_bytes_;
  rest_.push_back(static_cast<char>(kSame | (differs ? kLength : 0)));
  if (differs) PutVarint32(&rest_, record_bytes);
  PutFixed64(&rest_, last_trailer);
}

// What is short is put together beside rest_ and appended at once.
void ByteTableIndexBuilder::AddSeparator(const Slice& user_key, size_t shared,
                                         size_t separator_bytes, uint32_t record_bytes) {
  const size_t kept = std::min(shared, last_separator_bytes_);
  const size_t drop = whole_keys_ ? 0 : last_separator_bytes_ - kept;
  const size_t add = separator_bytes - kept;
  const size_t add_field = whole_keys_ ? add : add - 1;
  const size_t drop_bits = std::min(drop, size_t{kInVarint});
  const size_t add_bits = std::min(add_field, size_t{kInVarint});
  const bool differs = record_bytes != last_record_bytes_;
  constexpr size_t kFewBytes = 16;
  char entry[1 + 3 * kVarint32BytesMax + kFewBytes];
  char* at = entry;
  *at++ = static_cast<char>(drop_bits | add_bits << kAddShift | (differs ? kLength : 0u));
  if (drop_bits == kInVarint) at = EncodeVarint32(at, static_cast<uint32_t>(drop));
  if (add_bits == kInVarint) at = EncodeVarint32(at, static_cast<uint32_t>(add));
  if (differs) at = EncodeVarint32(at, record_bytes);
  const char* const added = user_key.data() + kept;
  const bool few = add <= kFewBytes;
  if (few) at = std::copy_n(added, add, at);
  rest_.append(entry, static_cast<size_t>(at - entry));
  if (!few) rest_.append(added, add);
}

uint64_t ByteTableIndexBuilder::BytesBound() const {
  const uint64_t for_groups = (groups_.size() + 1) * kEntryBytesMax;
  // The prefix is a part of the first separator, which does not repeat it.
  return kHeaderBytes + for_groups + separators_.size() + rest_.size() + kAlignment + kCrcBytes;
}

Slice ByteTableIndexBuilder::Separator(size_t group) const {
  const size_t start = group == 0 ? 0 : groups_[group - 1].separator_end;
  return Slice(separators_.data() + start, groups_[group].separator_end - start);
}

void ByteTableIndexBuilder::PutFirstEntry(size_t group, size_t prefix_bytes,
                                          std::string* to) const {
  const Group& from = groups_[group];
  const Slice tail = After(Separator(group), prefix_bytes);
  to->push_back(static_cast<char>(from.same ? kSame : 0));
  PutVarint32(to, static_cast<uint32_t>(tail.size()));
  PutVarint32(to, from.record_bytes);
  if (from.same) PutFixed64(to, from.trailer);
  const Slice rest = After(tail, whole_keys_ ? 0 : kDigestBytes);
  to->append(rest.data(), rest.size());
}

void ByteTableIndexBuilder::Finish(const Slice& last_key, uint64_t data_bytes,
                                   std::string* to) const {
  size_t prefix_bytes = 0;
  if (!whole_keys_ && !last_key.empty()) {
    prefix_bytes =
        std::min(CommonPrefix(first_key_, ExtractUserKey(last_key)), Separator(0).size());
  }
  std::string entries;
  std::string groups;
  entries.reserve(rest_.size() + groups_.size() * 16);
  groups.reserve((groups_.size() + 1) * kGroupBytes);
  const auto put_group = [&](uint64_t digest, uint64_t data_offset, bool uniform,
                             const auto& fingerprints) {
    PutFixed64(&groups, digest);
    PutFixed32(&groups, static_cast<uint32_t>(data_offset));
    PutFixed32(&groups, static_cast<uint32_t>(entries.size()) | (uniform ? kUniform : 0));
    groups.append(fingerprints.begin(), fingerprints.end());
  };
  size_t rest_start = 0;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const Group& from = groups_[group];
    put_group(whole_keys_ ? 0 : Digest(After(Separator(group), prefix_bytes)), from.data_offset,
              from.uniform, from.fingerprints);
    PutFirstEntry(group, prefix_bytes, &entries);
    entries.append(rest_, rest_start, from.rest_end - rest_start);
    rest_start = from.rest_end;
    if (entries.size() % 2 != 0) entries.push_back('\0');
  }
  put_group(/*digest=*/0, data_bytes, /*uniform=*/false, decltype(Group::fingerprints){});

  const size_t start = to->size();
  for (const size_t field : {size_t{kVersion}, size_t{whole_keys_ ? kWholeKeys : 0}, groups_.size(),
                             prefix_bytes, entries.size()}) {
    PutFixed32(to, static_cast<uint32_t>(field));
  }
  to->resize(start + kHeaderBytes);
  to->append(groups);
  to->append(first_key_, 0, prefix_bytes);
  to->append(entries);
  to->resize(start + RoundUp(to->size() - start + kCrcBytes) - kCrcBytes);
  PutFixed32(to, Crc32c(to->data() + start, to->size() - start));
}

}  // namespace dlsm
