// A publication: one state of a whole database, written into remote memory by its owner, where any
// number of followers find it one-sided. Numbered upwards, for the life of the database.
//
// The header of the database (util/rpc/messages/database_header.h) says where the newest one is:
//
//   offset in publications
//      0    number N of the newest publication; 0: there never was one
//     64    slot 0, of even numbers     N | sequence | node, region | offset | bytes | checksums
//    128    slot 1, of odd numbers
//
// All are words of eight bytes, read and written by atomics alone, so that none is torn on any
// fabric. A publication is written in this order: image, slot, number. So the slot of the number
// that a follower has read is whole, unless two further publications have come since; then the
// slot's own number or checksum tells, and it reads the number again.
//
// Who opens the database takes the next number for a publication without an image, for what the
// last one names is no longer kept for new followers. A former owner that does not know yet that it
// has been taken over has the wrong number from then on, and publishes nothing any more. Who has
// been taken over before this step, while it was opening the database, must not take it, or its
// successor would have the wrong number. So it looks at the ownership word after it has read the
// number: whoever becomes the owner later changes that, and the swap of it fails.
//
// The image:
//
//   fixed32 CRC32C of all that follows
//   fixed32 format version
//   varint64 number, varint64 sequence number
//   varint32 count of memory nodes; for each: name, varint32 node id, fixed64 contents id,
//   varint32 count of databases, names                                     (length-prefixed)
//   varint32 count of shards; the manifest of each                         (length-prefixed)
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dLSM/status.h"
#include "table/internal_key.h"
#include "util/deadline.h"
#include "util/fabric/fabric.h"

namespace dlsm {

struct Publication {
  // A memory node that holds some of it, and the names of the databases there that it consists of.
  struct Place {
    std::string node;  // As the owner names it, see MemoryNodesOf().
    NodeId id{};
    ContentsId contents{};  // With others, it has nothing of this publication.
    std::vector<std::string> databases;

    friend bool operator==(const Place&, const Place&) = default;
  };

  uint64_t number = 0;
  SequenceNumber sequence = 0;         // What is newer in its tables is not part of it.
  std::vector<Place> places;           // The first has the database's header.
  std::vector<std::string> manifests;  // Of the shards, see ManifestCodec.

  std::string Encode() const;
  // Bytes come from another machine. Manifests are not looked into.
  Status Decode(const Slice& bytes);
};

// Where a publication's image lies.
struct PublicationSlot {
  static constexpr size_t kWords = 6;
  using Words = std::array<uint64_t, kWords>;

  uint64_t number = 0;
  SequenceNumber sequence = 0;
  RemoteSpan image;  // No bytes: there is nothing to read.
  uint32_t image_checksum = 0;

  Words Encode() const;
  // Corruption if the words are not one slot's.
  Status Decode(const Words& words);
};

// One thread's access to the publications in a database's header.
class PublicationBoard {
 public:
  PublicationBoard(QueuePair* queue_pair, const RemoteSpan& header, Deadline deadline)
      : queue_pair_(queue_pair), header_(header), deadline_(deadline) {}

  // One round trip; 0 if there is none.
  Status ReadNumber(uint64_t* number);
  // One more. Busy if it was overtaken.
  Status ReadSlot(uint64_t number, PublicationSlot* slot);

  // For the owner alone. Publishes slot.number after `before`, or writes it again; Aborted if
  // somebody else has published meanwhile.
  Status Write(const PublicationSlot& slot, uint64_t before);
  // What was published before is so no longer. *number is that of the publication without an image;
  // *image, the last one's, perhaps of no bytes. IOFenced, and nothing has changed, unless
  // `ownership_word`, the caller's, is in the header.
  Status TakeOver(uint64_t ownership_word, uint64_t* number, RemoteSpan* image);

 private:
  Status CheckOwner(uint64_t ownership_word);
  Status Load(uint64_t offset, uint64_t* words, size_t count);
  Status Store(uint64_t offset, const uint64_t* before, const uint64_t* after, size_t count);
  Status WaitFor(Ticket last, Status posted);

  QueuePair* const queue_pair_;
  const RemoteSpan header_;
  const Deadline deadline_;
};

}  // namespace dlsm
