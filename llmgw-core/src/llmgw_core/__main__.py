"""`python -m llmgw_core …` is `llmgw …`, also where the environment is not activated."""

from llmgw_core.cli.main import main

if __name__ == "__main__":
    main()
