// The client's half of the conversation in verbs_cm_frame.h.
#pragma once

#include <string>
#include <vector>

#include "dLSM/status.h"
#include "util/deadline.h"
#include "util/fabric/verbs/verbs_endpoint.h"
#include "util/fabric/verbs/verbs_frame.h"

namespace dlsm {

// `life_line` has sent nothing yet. Connects `endpoint` and tells what memory it reaches.
Status ArrangeByManager(const std::string& peer, const std::string& token, int life_line,
                        Deadline deadline, VerbsEndpoint* endpoint,
                        std::vector<VerbsRemoteMemory>* memory);

}  // namespace dlsm
