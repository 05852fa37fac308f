#include "db/background/shed_metadata.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dLSM/statistics.h"

namespace dlsm {
namespace {

// Those that have index and filter, in the order in which the hand comes to them.
std::vector<TableRef> LoadedFrom(const Version& version, uint64_t hand) {
  std::vector<TableRef> tables;
  for (const Level& level : version.levels()) {
    for (TableRef& table : level.AllTables()) {
      if (TableStore::EvictableReaderOf(*table).loaded()) tables.push_back(std::move(table));
    }
  }
  std::sort(tables.begin(), tables.end(), [hand](const TableRef& a, const TableRef& b) {
    const bool a_is_before = a->number() <= hand;
    const bool b_is_before = b->number() <= hand;
    return std::pair(a_is_before, a->number()) < std::pair(b_is_before, b->number());
  });
  return tables;
}

}  // namespace

void ShedMetadata(const TableStore& store, Tree* tree, uint64_t* hand) {
  const MemoryBudget* const budget = store.budget();
  if (budget == nullptr || budget->excess() == 0) return;
  // Somewhat more, so that each table that is fetched does not ask for another one to go.
  const uint64_t wanted = budget->excess() + budget->metadata_max() / 16;
  const std::vector<TableRef> tables = LoadedFrom(*tree->views().Current()->version, *hand);
  std::vector<const EvictableTableReader*> leaving;
  const auto choose = [&] {
    std::unordered_map<uint64_t, TableRef> replaced;
    uint64_t shed = 0;
    for (const bool spare_used : {true, false}) {
      for (const TableRef& table : tables) {
        if (shed >= wanted) break;
        const EvictableTableReader& reader = TableStore::EvictableReaderOf(*table);
        if (replaced.contains(table->number()) || (reader.TakeUse() && spare_used)) continue;
        shed += reader.resident_bytes();
        leaving.push_back(&reader);
        replaced.emplace(table->number(), store.Unloaded(*table));
      }
    }
    return replaced;
  };
  // The house waits for nobody: the heartbeats of this memory node are its thread's as well.
  if (!tree->TryReplaceReaders(choose) || leaving.empty()) return;
  for (const EvictableTableReader* reader : leaving) reader->NoteLeaving();
  *hand = leaving.back()->meta().number;
  store.statistics()->Add(Ticker::kMetadataEvictions, leaving.size());
}

}  // namespace dlsm
