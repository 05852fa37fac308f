// What tests of the accounts share: accounts over memory of their own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory_node/accounts/accounts.h"
#include "util/status_testing.h"

namespace dlsm {

inline constexpr uint64_t kAccountsCapacity = uint64_t{1} << 20;
inline constexpr uint64_t kAccountsUnit = 4096;

inline ByteRanges Range(uint64_t begin, uint64_t end) {
  ByteRanges ranges;
  ranges.Add({begin, end});
  return ranges;
}

// Accounts over memory of their own, with every change that was made of them.
struct AccountsWorld {
  AccountsWorld() : accounts(Options(), &readers) {}
  ~AccountsWorld() { EXPECT_OK(accounts.CheckInvariants()); }

  AccountsOptions Options() {
    AccountsOptions options;
    options.node = NodeId{1};
    options.memory = &memory;
    options.capacity_bytes = kAccountsCapacity;
    options.extent_owners = &owners;
    options.changing = [this](const AccountChange& change) { changes.push_back(change); };
    return options;
  }
  uint64_t used() const { return kAccountsCapacity - accounts.FreeBytes(); }
  DatabasePointer Make(const std::string& name) {
    DatabasePointer database;
    EXPECT_OK(accounts.Make(name, /*room_is_coming=*/false, &database));
    return database;
  }
  void BeginOwner(const DatabasePointer& database) {
    uint64_t unnamed_before = 0;
    EXPECT_OK(accounts.BeginOwner(*database, &unnamed_before));
  }
  Status Grant(const DatabasePointer& database, uint64_t bytes, RemoteSpan* extent) {
    GrantRequest request;
    request.bytes = bytes;
    request.bytes_min = bytes;
    return accounts.Grant(*database, SessionId{1}, request, extent);
  }
  RemoteSpan GrantOk(const DatabasePointer& database, uint64_t bytes) {
    RemoteSpan extent;
    EXPECT_OK(Grant(database, bytes, &extent));
    return extent;
  }
  Status Put(const DatabasePointer& database, uint64_t version, std::vector<RemoteSpan> live) {
    PutManifestRequest request;
    request.version = version;
    request.manifest = "manifest " + std::to_string(version);
    request.live = std::move(live);
    return accounts.PutManifest(*database, request);
  }
  Status Free(const DatabasePointer& database, std::vector<RemoteSpan> spans) {
    ByteRanges freed;
    return accounts.Free(*database, spans, PublishedDatabase::kUnknown, &freed);
  }

  const std::unique_ptr<char[]> region = std::make_unique<char[]>(kAccountsCapacity);
  OwnMemory memory{NodeId{1}, RegionId{}, region.get(), kAccountsCapacity};
  ExtentOwners owners{RegionId{}};
  std::vector<AccountChange> changes;
  ReaderLeases readers;
  Accounts accounts;
};

}  // namespace dlsm
