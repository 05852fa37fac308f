// The databases of a memory node as rows of its files, and back: the part of DatabaseTable that is
// about a memory node that is started again.
//
// The rows have all that a client could notice: sessions, the words that they were offered, what
// they hold, the numbers of their requests. So for a client that lives, a memory node that is
// started again is one that could not be reached for a while.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "memory_node/accounts/database_table.h"
#include "memory_node/accounts/stored_ranges.h"
#include "util/log.h"

namespace dlsm {
namespace {

StoredSession ToStored(SessionId id, const Session& session) {
  StoredSession stored;
  stored.id = static_cast<uint64_t>(id);
  stored.incarnation = static_cast<uint64_t>(session.database->incarnation);
  stored.client = session.client;
  for (const std::string& token : session.tokens) {
    if (!session.revoked.contains(token)) stored.tokens.push_back(token);
  }
  stored.known = session.known;
  stored.last_free = session.last_free;
  stored.unnamed_before = session.unnamed_before;
  for (const auto& [number, span] : session.grants) {
    stored.grants.push_back({number, span.offset, span.bytes});
  }
  stored.next_merge = session.merges.next();
  stored.awaited_merges = session.merges.awaited();
  for (const auto& [number, outputs] : session.merges.begun()) {
    stored.merges.push_back({number, ToStored(outputs)});
  }
  return stored;
}

Session FromStored(const StoredSession& stored, DatabasePointer database, RegionId region) {
  Session session;
  const RemoteSpan& header = database->header;
  session.database = std::move(database);
  session.client = stored.client;
  session.tokens = stored.tokens;
  session.known = stored.known;
  session.last_free = stored.last_free;
  session.unnamed_before = stored.unnamed_before;
  for (const StoredGrant& grant : stored.grants) {
    session.grants[grant.number] = RemoteSpan{header.node, region, grant.offset, grant.bytes};
  }
  std::map<uint64_t, ByteRanges> begun;
  for (const StoredMerge& merge : stored.merges) {
    ByteRanges& outputs = begun[merge.number];
    for (const StoredRange& range : merge.outputs) outputs.Add({range.begin, range.end});
  }
  session.merges.Restore(stored.awaited_merges, stored.next_merge, std::move(begun));
  return session;
}

}  // namespace

void DatabaseTable::TakeSnapshot(const std::map<uint64_t, uint64_t>& manifests, StoredRows* rows,
                                 uint64_t* change) {
  std::vector<StoredDatabase> databases;
  std::map<uint64_t, StoredManifest> put;
  StoredQuotas quotas;
  std::vector<StoredSession> sessions;
  {
    const port::MutexLock lock(mutex_);
    accounts_.TakeSnapshot(manifests, &databases, &put, &quotas, change);
    for (StoredDatabase& database : databases) {
      const DatabasePointer found =
          accounts_.FindIncarnation(DatabaseIncarnation{database.incarnation});
      if (found != nullptr && database.listed) database.epoch = ownership_.LastEpochOf(*found);
    }
    for (const auto& [id, session] : sessions_.all()) {
      StoredSession& stored = sessions.emplace_back(ToStored(id, session));
      const Ownership::Offer offer = ownership_.OfferOf(id);
      stored.word_before = offer.before;
      stored.word = offer.word;
      stored.word_seen = ownership_.HasSeenItsWord(id);
      stored.owner = ownership_.IsOwner(id);
    }
  }
  for (const StoredDatabase& database : databases) {
    (*rows)[{StoredKind::kDatabase, database.incarnation}] = database.Encode();
  }
  for (const auto& [incarnation, manifest] : put) {
    (*rows)[{StoredKind::kManifest, incarnation}] = manifest.Encode(incarnation);
  }
  for (const StoredSession& session : sessions) {
    (*rows)[{StoredKind::kSession, session.id}] = session.Encode();
  }
  (*rows)[{StoredKind::kQuotas, 0}] = quotas.Encode();
}

void DatabaseTable::Restore(const StoredState& state, bool resumed) {
  const port::MutexLock lock(mutex_);
  // Each fence has a number of its own. Those of bytes that readers may still read are above
  // others.
  uint64_t first_readers_fence = 0;
  for (const StoredDatabase& database : state.databases) {
    for (const StoredReason& reason : database.reasons) {
      first_readers_fence = std::max(first_readers_fence, reason.number + 1);
    }
  }
  accounts_.Restore(state, resumed, first_readers_fence);
  const auto now = options_.clock();
  for (const auto& [database, numbers] : accounts_.Fences()) {
    for (const uint64_t number : numbers) {
      // A reader trusts its lease until it ends; other clients have let go when they are gone.
      const bool of_readers = number >= first_readers_fence;
      revocations_.Restore(number, database, /*blocks=*/!of_readers,
                           now + (of_readers ? options_.lease : options_.grace));
    }
  }
  size_t sessions = 0;
  for (const StoredSession& stored : state.sessions) {
    if (!resumed) break;
    DatabasePointer database = accounts_.FindIncarnation(DatabaseIncarnation{stored.incarnation});
    if (database == nullptr) continue;
    const SessionId id{stored.id};
    sessions_.Restore(id, FromStored(stored, database, options_.region), now + options_.lease);
    ownership_.Restore(id, std::move(database), stored.client, {stored.word_before, stored.word},
                       stored.word_seen, stored.owner);
    ++sessions;
  }
  for (const StoredDatabase& stored : state.databases) {
    const DatabasePointer database =
        accounts_.FindIncarnation(DatabaseIncarnation{stored.incarnation});
    if (database != nullptr && !resumed) ownership_.RestoreEpoch(*database, stored.epoch);
  }
  Log().Info("memory node {} has {} databases of before, and {} sessions that may go on",
             static_cast<uint32_t>(options_.node), accounts_.count(), sessions);
}

std::vector<std::string> DatabaseTable::DataTokens() const {
  const port::MutexLock lock(mutex_);
  std::set<std::string> tokens;
  for (const auto& [id, session] : sessions_.all()) {
    tokens.insert(session.tokens.begin(), session.tokens.end());
  }
  return {tokens.begin(), tokens.end()};
}

}  // namespace dlsm
