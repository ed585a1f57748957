// Which instruction set the arithmetic uses: the best of this machine, or the one that HYPERSPN_ISA names.
#pragma once
#include <string>
#include <vector>

namespace hyperspn {

std::vector<std::string> instruction_sets();  // of this machine, best first
const std::string& instruction_set();         // in use

}  // namespace hyperspn
