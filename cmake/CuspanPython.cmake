# Python3_EXECUTABLE and Python3::Interpreter. The interpreter itself: what is found first may be a script
# that looks for it each time (pyenv), which takes longer than most of what is run by it.
if(NOT Python3_EXECUTABLE)
  execute_process(COMMAND python3 -c "import sys; print(sys.executable)"
                  OUTPUT_VARIABLE executable OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS "${executable}")
    set(Python3_EXECUTABLE "${executable}")
  endif()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
