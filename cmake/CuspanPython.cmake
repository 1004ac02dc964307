# Sets Python3_EXECUTABLE and Python3::Interpreter to the real interpreter. The first one in PATH
# may be a wrapper script (pyenv); searching for the interpreter each time takes longer than most
# scripts run.
if(NOT Python3_EXECUTABLE)
  execute_process(COMMAND python3 -c "import sys; print(sys.executable)"
                  OUTPUT_VARIABLE executable OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS "${executable}")
    set(Python3_EXECUTABLE "${executable}")
  endif()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
