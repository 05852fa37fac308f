#include "db/follow/publication.h"

#include <utility>

#include "util/checksum.h"
#include "util/coding.h"
#include "util/rpc/messages/database_header.h"
#include "util/status_macros.h"

namespace dlsm {
namespace {

constexpr uint32_t kFormatVersion = 2;
constexpr uint64_t kNumberOffset = 0;
constexpr uint64_t kSlotOffset = 64;
constexpr uint64_t kSlotBytes = 64;

uint64_t SlotOffsetOf(uint64_t number) { return kSlotOffset + number % 2 * kSlotBytes; }

Status Malformed(const char* what) { return Status::Corruption("malformed publication", what); }

// Of all words but the last, and of what the last says of the image.
uint32_t ChecksumOf(const PublicationSlot::Words& words, uint32_t image_checksum) {
  std::string bytes;
  for (size_t i = 0; i + 1 < words.size(); ++i) PutFixed64(&bytes, words[i]);
  PutFixed32(&bytes, image_checksum);
  return Crc32c(bytes.data(), bytes.size());
}

}  // namespace

std::string Publication::Encode() const {
  std::string body;
  PutFixed32(&body, kFormatVersion);
  PutVarint64(&body, number);
  PutVarint64(&body, sequence);
  PutVarint32(&body, static_cast<uint32_t>(places.size()));
  for (const Place& place : places) {
    PutLengthPrefixed(&body, place.node);
    PutVarint32(&body, static_cast<uint32_t>(place.id));
    PutFixed64(&body, static_cast<uint64_t>(place.contents));
    PutVarint32(&body, static_cast<uint32_t>(place.databases.size()));
    for (const std::string& name : place.databases) PutLengthPrefixed(&body, name);
  }
  PutVarint32(&body, static_cast<uint32_t>(manifests.size()));
  for (const std::string& manifest : manifests) PutLengthPrefixed(&body, manifest);
  std::string bytes;
  PutFixed32(&bytes, Crc32c(body.data(), body.size()));
  return bytes + body;
}

Status Publication::Decode(const Slice& bytes) {
  Slice from = bytes;
  uint32_t checksum;
  if (!GetFixed32(&from, &checksum)) return Malformed("too short");
  if (checksum != Crc32c(from.data(), from.size())) return Malformed("checksum mismatch");
  uint32_t format;
  if (!GetFixed32(&from, &format)) return Malformed("no format version");
  if (format != kFormatVersion) {
    return Status::NotSupported(
        "the publication was written by another version of dLSM",
        "format " + std::to_string(format) + ", this knows " + std::to_string(kFormatVersion));
  }
  uint32_t count;
  if (!GetVarint64(&from, &number) || !GetVarint64(&from, &sequence) ||
      sequence >= kSequenceNumberMax) {
    return Malformed("number");
  }
  // Each element takes at least one byte, which bounds the loops by the input.
  if (!GetVarint32(&from, &count) || count == 0 || count > from.size()) return Malformed("places");
  places.clear();
  for (uint32_t i = 0; i < count; ++i) {
    Place& place = places.emplace_back();
    Slice name;
    uint32_t id;
    uint64_t contents;
    uint32_t databases;
    if (!GetLengthPrefixed(&from, &name) || !GetVarint32(&from, &id) ||
        !GetFixed64(&from, &contents) || !GetVarint32(&from, &databases) ||
        databases > from.size()) {
      return Malformed("place");
    }
    place.node = name.ToString();
    place.id = NodeId{id};
    place.contents = ContentsId{contents};
    for (uint32_t d = 0; d < databases; ++d) {
      if (!GetLengthPrefixed(&from, &name)) return Malformed("database");
      place.databases.push_back(name.ToString());
    }
  }
  if (!GetVarint32(&from, &count) || count == 0 || count > from.size()) return Malformed("shards");
  manifests.clear();
  for (uint32_t i = 0; i < count; ++i) {
    Slice manifest;
    if (!GetLengthPrefixed(&from, &manifest)) return Malformed("manifest");
    manifests.push_back(manifest.ToString());
  }
  return from.empty() ? Status::OK() : Malformed("trailing bytes");
}

PublicationSlot::Words PublicationSlot::Encode() const {
  Words words{
      number,
      sequence,
      uint64_t{static_cast<uint32_t>(image.node)} << 32 | static_cast<uint32_t>(image.region),
      image.offset,
      image.bytes,
      0};
  words[kWords - 1] = uint64_t{ChecksumOf(words, image_checksum)} << 32 | image_checksum;
  return words;
}

Status PublicationSlot::Decode(const Words& words) {
  number = words[0];
  sequence = words[1];
  image.node = NodeId{static_cast<uint32_t>(words[2] >> 32)};
  image.region = RegionId{static_cast<uint32_t>(words[2])};
  image.offset = words[3];
  image.bytes = words[4];
  image_checksum = static_cast<uint32_t>(words[5]);
  if (words[5] >> 32 != ChecksumOf(words, image_checksum)) return Malformed("slot");
  // Who has written the checksum has not meant this, but it is what this process would allocate.
  constexpr uint64_t kImageBytesMax = uint64_t{1} << 30;
  if (image.bytes > kImageBytesMax || image.offset > UINT64_MAX - image.bytes) {
    return Malformed("image");
  }
  return Status::OK();
}

// By adding nothing: a read that no fabric tears.
Status PublicationBoard::Load(uint64_t offset, uint64_t* words, size_t count) {
  const RemoteSpan publications = PublicationsIn(header_);
  Ticket last{};
  Status status;
  for (size_t i = 0; status.ok() && i < count; ++i) {
    status = queue_pair_->PostFetchAdd(publications.Sub(offset + i * 8, 8), /*addend=*/0, &words[i],
                                       Purpose::kPublication, &last);
  }
  return WaitFor(last, std::move(status));
}

// The words are the fabric's until what was posted has completed, also where not all was.
Status PublicationBoard::WaitFor(Ticket last, Status posted) {
  if (last != Ticket{}) KeepFirstError(queue_pair_->Wait(last, deadline_), &posted);
  return posted;
}

Status PublicationBoard::Store(uint64_t offset, const uint64_t* before, const uint64_t* after,
                               size_t count) {
  const RemoteSpan publications = PublicationsIn(header_);
  std::array<uint64_t, PublicationSlot::kWords> prior{};
  Ticket last{};
  Status status;
  for (size_t i = 0; status.ok() && i < count; ++i) {
    status = queue_pair_->PostCompareAndSwap(publications.Sub(offset + i * 8, 8), before[i],
                                             after[i], &prior[i], Purpose::kPublication, &last);
  }
  DLSM_RETURN_IF_ERROR(WaitFor(last, std::move(status)));
  for (size_t i = 0; i < count; ++i) {
    if (prior[i] == before[i]) continue;
    return Status::Aborted("somebody else publishes this database", "open it again");
  }
  return Status::OK();
}

Status PublicationBoard::ReadNumber(uint64_t* number) { return Load(kNumberOffset, number, 1); }

Status PublicationBoard::ReadSlot(uint64_t number, PublicationSlot* slot) {
  PublicationSlot::Words words{};
  DLSM_RETURN_IF_ERROR(Load(SlotOffsetOf(number), words.data(), words.size()));
  const Status decoded = slot->Decode(words);
  if (decoded.ok() && slot->number == number) return Status::OK();
  return Status::Busy("the publication was overtaken by newer ones", "try again");
}

Status PublicationBoard::Write(const PublicationSlot& slot, uint64_t before) {
  uint64_t number;
  PublicationSlot::Words old{};
  DLSM_RETURN_IF_ERROR(ReadNumber(&number));
  DLSM_RETURN_IF_ERROR(Load(SlotOffsetOf(slot.number), old.data(), old.size()));
  // The answer was lost the last time.
  if (number == slot.number && old == slot.Encode()) return Status::OK();
  if (number != before) {
    return Status::Aborted("somebody else publishes this database", "open it again");
  }
  DLSM_RETURN_IF_ERROR(
      Store(SlotOffsetOf(slot.number), old.data(), slot.Encode().data(), old.size()));
  return Store(kNumberOffset, &before, &slot.number, 1);
}

Status PublicationBoard::CheckOwner(uint64_t ownership_word) {
  uint64_t word = 0;
  Ticket read{};
  Status posted = queue_pair_->PostFetchAdd(OwnershipWordIn(header_), /*addend=*/0, &word,
                                            Purpose::kPublication, &read);
  DLSM_RETURN_IF_ERROR(WaitFor(read, std::move(posted)));
  if (word == ownership_word) return Status::OK();
  return Status::IOFenced("another has taken this database over while it was opened",
                          "close it there or wait, or take it over again");
}

// The former owner may publish once more meanwhile: then that one is taken over.
Status PublicationBoard::TakeOver(uint64_t ownership_word, uint64_t* number, RemoteSpan* image) {
  constexpr int kAttemptsMax = 10;
  Status taken;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    uint64_t before;
    DLSM_RETURN_IF_ERROR(ReadNumber(&before));
    DLSM_RETURN_IF_ERROR(CheckOwner(ownership_word));
    PublicationSlot last;
    const Status read = before == 0 ? Status::OK() : ReadSlot(before, &last);
    if (!read.ok() && !read.IsBusy()) return read;
    *image = read.ok() ? last.image : RemoteSpan{};
    PublicationSlot none;
    none.number = before + 1;
    taken = Write(none, before);
    if (taken.ok()) *number = none.number;
    if (!taken.IsAborted()) return taken;
  }
  return taken;
}

}  // namespace dlsm
