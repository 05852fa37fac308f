// Point lookups of many keys side by side: each takes the steps of point_reader.h, where all is
// decided, one at a time. A TableLookup remembers how far its key has come. What many of them do
// together makes the cache misses on their ways overlap.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dLSM/pinnable_slice.h"
#include "dLSM/status.h"
#include "db/read/point_reader.h"
#include "db/tree/read_view.h"

namespace dlsm {

struct LookupRequest {
  LookupRequest(const Slice& user_key, SequenceNumber sequence) : key(user_key, sequence) {}

  const PointReader* reader = nullptr;  // Of the key's shard.
  const ReadView* view = nullptr;
  // Where a value goes: one of the two.
  std::string* value = nullptr;
  PinnableSlice* pinned = nullptr;
  // Keeps the view for who has pinned a value in place; null: such values are copied. Means
  // something with `pinned`.
  const std::shared_ptr<const void>* holder = nullptr;

  // The answer.
  Status status;
  LookupState state = LookupState::kAbsent;
  // As in LookupResult; known once the memtables have been asked.
  SequenceNumber hidden_below = 0;

  // Behind the others: its end is for long keys, so of many requests fewer cache lines are touched.
  const LookupKey key;
};

// A request's way through the tables of its version.
class TableLookup {
 public:
  TableLookup() = default;
  // `request` stays where it is.
  explicit TableLookup(LookupRequest* request) : request_(request) {}
  // Forgets what was before.
  void Start(LookupRequest* request);
  LookupRequest& request() const { return *request_; }

  // Step 1. True if a memtable has answered.
  bool AskMemtables();
  // What Version::AddCandidates() and AskCandidates() call for each table that may hold the key.
  auto Collector() {
    return [this](const Table& table, bool filtered) {
      if (candidates_ < first_.size()) {
        first_[candidates_] = {&table, filtered};
      } else {
        further_.push_back({&table, filtered});
      }
      ++candidates_;
      return true;
    };
  }
  // How many tables their filters excluded, for the statistics.
  void CountExcluded(uint64_t tables) const;

  bool has_candidates() const { return candidates_ > 0; }

  // Steps towards the next candidate's record; see TableReader::Approach().
  void Approach();
  void ApproachFurther();
  // See PointReader::PrefetchPage().
  bool PrefetchPage(const TableReadOptions& options) const {
    return request_->reader->PrefetchPage(probe_.span, options);
  }
  // Step 3: moves on to the next candidate whose index places the key, and whose record the value
  // cache does not have. Returns false if the request is finished: the cache had its answer, or no
  // candidate is left, so the database does not have the key.
  bool Advance(const TableReadOptions& options);
  // After Advance() has returned true: whose record it is, and what to fetch. Without bytes there
  // is nothing to fetch.
  const Table& table() const { return *table_; }
  RemoteSpan to_fetch() const {
    return probe_.cached == nullptr ? probe_.span : table_->meta().data_span().Sub(0, 0);
  }
  // Step 4: looks at the record's bytes. `holder` keeps them where they are; without one, or with a
  // null one, a value is copied. Returns true if the request has its answer or its error, and false
  // if the record is another key's: then call Advance() again.
  bool Decode(const Slice& bytes, const std::shared_ptr<const void>* holder,
              const TableReadOptions& options);

 private:
  struct Candidate {
    const Table* table = nullptr;
    bool filtered = false;  // Its filter has been asked.
  };

  const Candidate& CandidateAt(size_t i) const {
    return i < first_.size() ? first_[i] : further_[i - first_.size()];
  }
  Statistics::Mine counts() const { return request_->reader->statistics()->OfThisThread(); }
  // Step 4's end: true if the result ends the lookup, and then it is the request's. `holder`: of
  // the value, if it has none of its own; see Decode().
  bool Take(LookupResult* result, const std::shared_ptr<const void>* holder);

  LookupRequest* request_ = nullptr;
  // The tables that may hold the key, newest first. There is mostly one, so few lookups allocate.
  size_t candidates_ = 0;
  std::array<Candidate, 2> first_{};
  std::vector<Candidate> further_;
  size_t next_ = 0;
  const Table* table_ = nullptr;
  TableProbe probe_;
};

// How many keys take each step together before any takes the next one. More would fall out of the
// first-level cache before they are used.
inline constexpr size_t kLookupsTogetherMax = 16;

// Step 2: finds the candidate tables of lookups that no memtable has answered, kLookupsTogetherMax
// of them at most.
void FindCandidatesTogether(std::span<TableLookup* const> lookups);
// Then has what Advance() of each will look at on its way to the caches.
void ApproachTogether(std::span<TableLookup* const> lookups, const TableReadOptions& options);

}  // namespace dlsm
