// The order in which names of nodes are shown.
//
// Thread: any; pure.
#pragma once

#include <string>

namespace mlxcomm::ctl {

// For an order in which "mac-10" follows "mac-9": numbers get leading zeros. web/page/words.js has the
// same.
std::string NumbersPadded(const std::string& name);

}  // namespace mlxcomm::ctl
