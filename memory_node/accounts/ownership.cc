#include "memory_node/accounts/ownership.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <utility>

#include "port/allocation_point.h"
#include "util/rpc/messages/database_header.h"

namespace dlsm {

// The client's swap of the words and its call are ordered by the message between them; a swap that
// no call follows may be seen a little later.
uint64_t Ownership::WordOf(const DatabaseIdentity& database) const {
  char* const word = memory_->At(OwnershipWordIn(database.header));
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(word))
      .load(std::memory_order_acquire);
}

Ownership::Offer Ownership::Begin(SessionId session, DatabasePointer database, std::string client) {
  Offer offer;
  offer.before = WordOf(*database);
  OwnershipWord word = OwnershipWord::Of(offer.before);
  ++word.epoch;
  // Part of the session's number, which is random, and different from that of each other session.
  word.tag = static_cast<uint32_t>(session);
  while (word.tag == 0 || IsOffered(*database, word.bits())) ++word.tag;
  offer.word = word.bits();
  Owners owner{{database->incarnation, session}};
  port::AllocationPoint("ownership: claim");
  claims_.emplace(session, Claim{std::move(database), std::move(client), offer,
                                 owner.extract(owner.begin()), /*seen=*/false});
  return offer;
}

bool Ownership::IsOffered(const DatabaseIdentity& database, uint64_t word) const {
  return std::ranges::any_of(claims_, [&](const auto& each) {
    return each.second.database.get() == &database && each.second.offer.word == word;
  });
}

void Ownership::End(SessionId session) noexcept {
  const auto claim = claims_.find(session);
  if (claim == claims_.end()) return;
  const auto owner = owners_.find(claim->second.database->incarnation);
  if (owner != owners_.end() && owner->second == session) owners_.erase(owner);
  claims_.erase(claim);
}

Ownership::Offer Ownership::OfferOf(SessionId session) const { return claims_.at(session).offer; }

bool Ownership::HasItsWord(SessionId session) const {
  const Claim& claim = claims_.at(session);
  return WordOf(*claim.database) == claim.offer.word;
}

bool Ownership::HasNotSwapped(SessionId session) const {
  const Claim& claim = claims_.at(session);
  return !claim.seen && WordOf(*claim.database) == claim.offer.before;
}

uint32_t Ownership::LastEpochOf(const DatabaseIdentity& database) const {
  uint32_t epoch = OwnershipWord::Of(WordOf(database)).epoch;
  for (const auto& [session, claim] : claims_) {
    if (claim.database.get() != &database) continue;
    epoch = std::max(epoch, OwnershipWord::Of(claim.offer.word).epoch);
  }
  return epoch;
}

void Ownership::Restore(SessionId session, DatabasePointer database, std::string client,
                        Offer offer, bool seen, bool owner) {
  const DatabaseIncarnation incarnation = database->incarnation;
  Owners made{{incarnation, session}};
  claims_.emplace(session, Claim{std::move(database), std::move(client), offer,
                                 made.extract(made.begin()), seen});
  if (owner) owners_.insert(std::move(claims_.at(session).as_owner));
}

void Ownership::RestoreEpoch(const DatabaseIdentity& database, uint32_t epoch) {
  if (OwnershipWord::Of(WordOf(database)).epoch >= epoch) return;
  char* const word = memory_->At(OwnershipWordIn(database.header));
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(word))
      .store(OwnershipWord{epoch, 0}.bits(), std::memory_order_release);
}

SessionId Ownership::OwnerOf(const DatabaseIdentity& database) const {
  const auto owner = owners_.find(database.incarnation);
  return owner == owners_.end() ? SessionId{} : owner->second;
}

bool Ownership::IsOwner(SessionId session) const {
  const auto claim = claims_.find(session);
  return claim != claims_.end() && OwnerOf(*claim->second.database) == session;
}

void Ownership::BecomeOwner(SessionId session) noexcept {
  Claim& claim = claims_.at(session);
  const bool first = owners_.insert(std::move(claim.as_owner)).inserted;
  assert(first);
  static_cast<void>(first);
  if (HasItsWord(session)) claim.seen = true;
}

SessionId Ownership::LostOwnerOf(const DatabaseIdentity& database) {
  const SessionId owner = OwnerOf(database);
  if (owner == SessionId{}) return owner;
  Claim& claim = claims_.at(owner);
  const uint64_t word = WordOf(database);
  if (word == claim.offer.word) claim.seen = true;
  const bool has_it = word == claim.offer.word || (!claim.seen && word == claim.offer.before);
  return has_it ? SessionId{} : owner;
}

const std::string* Ownership::ClaimOn(const DatabaseIdentity& database) const {
  const SessionId owner = OwnerOf(database);
  for (const auto& [session, claim] : claims_) {
    if (claim.database.get() == &database && session != owner) return &claim.client;
  }
  return nullptr;
}

bool Ownership::IsWanted(const DatabaseIdentity& database) const {
  return OwnerOf(database) != SessionId{} || ClaimOn(database) != nullptr;
}

std::string Ownership::HolderOf(const DatabaseIdentity& database, uint64_t word) const {
  for (const auto& [session, claim] : claims_) {
    if (claim.database.get() == &database && claim.offer.word == word) return claim.client;
  }
  return "a client that has gone since";
}

std::string Ownership::Fence(SessionId session, Clock::time_point forget_at) {
  const DatabaseIdentity& database = *claims_.at(session).database;
  const uint64_t word = WordOf(database);
  std::string why =
      fmt::format("fenced: ownership of database '{}' was taken by {} (epoch {})", database.name,
                  HolderOf(database, word), OwnershipWord::Of(word).epoch);
  if (fenced_.size() >= kFencedMax) fenced_.erase(fenced_.begin());
  fenced_[session] = Fenced{forget_at, why};
  ++take_overs_;
  return why;
}

const std::string* Ownership::WhyFenced(SessionId session) const {
  const auto fenced = fenced_.find(session);
  return fenced == fenced_.end() ? nullptr : &fenced->second.why;
}

void Ownership::ForgetFenced(Clock::time_point now) {
  std::erase_if(fenced_, [now](const auto& each) { return each.second.forget_at <= now; });
}

}  // namespace dlsm
