// What one thread does in each workload; see the catalogue in workload.cc.
#pragma once

#include "benchmarks/worker.h"
#include "benchmarks/workload.h"

namespace dlsm::bench {

// In write_workloads.cc. Each takes the worker's steps of input.plan.
void RunWrites(Worker& worker, const WorkloadInput& input);
void RunSyncWrites(Worker& worker, const WorkloadInput& input);
void RunBulkLoad(Worker& worker, const WorkloadInput& input);
void RunMixed(Worker& worker, const WorkloadInput& input);
// Until the measured threads are done.
void RunBackgroundWriter(Worker& worker, const WorkloadInput& input);

// In read_workloads.cc.
void RunReadRandom(Worker& worker, const WorkloadInput& input);
void RunReadMissing(Worker& worker, const WorkloadInput& input);
void RunReadHot(Worker& worker, const WorkloadInput& input);
void RunMultiRead(Worker& worker, const WorkloadInput& input);
void RunScanForward(Worker& worker, const WorkloadInput& input);
void RunScanBackward(Worker& worker, const WorkloadInput& input);
void RunIndexQueries(Worker& worker, const WorkloadInput& input);
void RunSeekRandom(Worker& worker, const WorkloadInput& input);

// In verify_workload.cc.
void RunPipelinedRead(Worker& worker, const WorkloadInput& input);
void RunVerify(Worker& worker, const WorkloadInput& input);

}  // namespace dlsm::bench
