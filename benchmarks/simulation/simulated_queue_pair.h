// One-sided access over the simulated network.
//
// The requests of a queue pair are carried out one after the other, each in pieces at moments of
// their own: so a reader may find half of a write, and requests of different queue pairs take place
// and complete in any order. A queue pair that breaks leaves the request under way in part, and
// none of it takes place after Wait() has said so, as the contract wants. Only the death of the
// whole compute node leaves writes behind that may still take place, until the memory node has cut
// the client off.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/simulation/simulated_network.h"
#include "dLSM/status.h"
#include "util/fabric/buffer_pool.h"
#include "util/fabric/fabric.h"
#include "util/fabric/queue_pair_ledger.h"
#include "util/fabric/region_table.h"

namespace dlsm::simulation {

class TransferQueue;

// What a memory node's process serves one-sided from its start to its end.
class ServedMemory {
 public:
  ServedMemory(FabricPeer peer, char* data) : peer_(std::move(peer)), data_(data) {}

  const FabricPeer& peer() const { return peer_; }
  char* data() const { return data_; }
  bool alive() const { return alive_; }

  void Join(const std::shared_ptr<TransferQueue>& queue);
  // Nothing that was asked for with `token` takes place any more.
  void CutOff(const std::string& token);
  void Allow(const std::string& token) { allowed_.push_back(token); }
  bool Allows(const std::string& token) const;
  // The host has died; some of what it has asked for may yet take place.
  void Orphan(const SimulatedHost* host);
  // The memory goes.
  void End();

 private:
  const FabricPeer peer_;
  char* const data_;
  bool alive_ = true;
  std::vector<std::string> allowed_;
  std::vector<std::weak_ptr<TransferQueue>> queues_;
};

class SimulatedFabricConnection final : public FabricConnection {
 public:
  // What a memory node's present process serves; null while it is down.
  using FindMemory = std::function<std::shared_ptr<ServedMemory>()>;

  // `token` is the client's at that memory node. `find` is asked for each queue pair: a process
  // after the one that served `memory` may go on with its boot.
  SimulatedFabricConnection(SimulatedNetwork* network, std::shared_ptr<SimulatedHost> host,
                            std::shared_ptr<ServedMemory> memory, FindMemory find,
                            std::string token);

  FabricKind kind() const override { return FabricKind::kTcp; }
  Status NewQueuePair(Deadline deadline, std::unique_ptr<QueuePair>* queue_pair) override;
  Status NewBuffer(size_t bytes, RegisteredBuffer* buffer) override {
    return buffers_.NewBuffer(bytes, buffer);
  }
  WireTotals Totals() const override { return costs_.Totals(); }

 private:
  SimulatedNetwork* const network_;
  const std::shared_ptr<SimulatedHost> host_;
  std::shared_ptr<ServedMemory> memory_;
  const FindMemory find_;
  const std::string token_;
  RegionTable regions_;
  BufferPool buffers_;
  WireCostRegistry costs_;
};

}  // namespace dlsm::simulation
