// The owner of each database of a memory node, by the word in its header (database_header.h).
//
//   1. A session that begins is offered a word, and the one that it is to replace. Until its own is
//      there, the session is a claim.
//   2. Its client swaps the words, one-sided. No call tells of that.
//   3. The session whose word is there becomes the owner. An owner whose word is not there any more
//      has lost the database, from the moment of the swap on: so each call of an owner asks first.
//
// A word that was offered is offered to no other session, and its epoch is larger than those of all
// words that have been there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "memory_node/accounts/accounts.h"
#include "memory_node/accounts/own_memory.h"
#include "port/clock.h"
#include "util/rpc/messages/messages.h"

namespace dlsm {

// One thread at a time: the caller locks, because whether a session goes on is decided together
// with what is known of that session elsewhere.
class Ownership {
 public:
  using Clock = port::Clock;

  // The words of a session.
  struct Offer {
    uint64_t before = 0;
    uint64_t word = 0;
  };

  // For sessions that ask why they have ended.
  static constexpr size_t kFencedMax = 10000;

  // `memory` outlives this.
  explicit Ownership(OwnMemory* memory) : memory_(memory) {}

  // The word that is in the header now.
  uint64_t WordOf(const DatabaseIdentity& database) const;

  // A claim of the session begins. `client` is for messages.
  Offer Begin(SessionId session, DatabasePointer database, std::string client);
  // The session has ended; no effect if it has no claim.
  void End(SessionId session) noexcept;

  Offer OfferOf(SessionId session) const;
  // Whether the session's client has put its word in place, and none has replaced it.
  bool HasItsWord(SessionId session) const;
  // Whether the session's client has not swapped the words, nor has any other since the offer, as
  // far as is known.
  bool HasNotSwapped(SessionId session) const;

  // Of a session that has a claim: whether its word was seen in the header.
  bool HasSeenItsWord(SessionId session) const { return claims_.at(session).seen; }
  // The largest epoch that was in the header or was offered to a session that is there.
  uint32_t LastEpochOf(const DatabaseIdentity& database) const;
  // Takes up a stored claim, of an owner if `owner` says so.
  void Restore(SessionId session, DatabasePointer database, std::string client, Offer offer,
               bool seen, bool owner);
  // No owner is there, and what was in the header may have been lost: the next word's epoch will be
  // larger than this one.
  void RestoreEpoch(const DatabaseIdentity& database, uint32_t epoch);

  // 0: nobody owns it.
  SessionId OwnerOf(const DatabaseIdentity& database) const;
  bool IsOwner(SessionId session) const;
  // The database has no owner. Takes no memory.
  void BecomeOwner(SessionId session) noexcept;
  // The owner, if its word has been replaced. 0: there is none, or it has not.
  SessionId LostOwnerOf(const DatabaseIdentity& database);

  // The client that has a claim on the database, or null if none has.
  const std::string* ClaimOn(const DatabaseIdentity& database) const;
  // Whether it has an owner, or a claim is on it.
  bool IsWanted(const DatabaseIdentity& database) const;
  // The client that put this word into the database's header, for people.
  std::string HolderOf(const DatabaseIdentity& database, uint64_t word) const;

  // An owner is to end because another took over; what is told to a client that asks with its
  // session, until `forget_at`. Returns that.
  std::string Fence(SessionId session, Clock::time_point forget_at);
  // The reason; null if the session was not fenced, or that is forgotten.
  const std::string* WhyFenced(SessionId session) const;
  void ForgetFenced(Clock::time_point now);
  // Databases that were taken over from an owner, so far.
  uint64_t take_overs() const { return take_overs_; }

 private:
  using Owners = std::map<DatabaseIncarnation, SessionId>;
  struct Claim {
    DatabasePointer database;
    std::string client;
    Offer offer;
    // Its entry among the owners, until it becomes one: so that takes no memory.
    Owners::node_type as_owner;
    // An owner's word has been seen in the header. Any other word has replaced it then, also the
    // one from before: a client can write that again.
    bool seen = false;
  };
  struct Fenced {
    Clock::time_point forget_at;
    std::string why;
  };

  bool IsOffered(const DatabaseIdentity& database, uint64_t word) const;

  OwnMemory* const memory_;
  std::map<SessionId, Claim> claims_;  // Of all sessions, owners as well.
  Owners owners_;
  std::map<SessionId, Fenced> fenced_;
  uint64_t take_overs_ = 0;
};

}  // namespace dlsm
